//! Requirements that a machine may lack.

use crate::skip;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What it takes to make network namespaces.
pub const NAMESPACES: &str = "network namespaces (root, iproute2)";

/// Whether the program `name` is installed, also among system tools.
pub fn is_installed(name: &str) -> bool {
    find(name).is_some()
}

/// The path of the program `name`, as a root shell finds it.
pub fn find(name: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// As [`is_installed`]; without it, the calling test is skipped.
///
/// # Panics
/// If it is not, with `ROCE_LAB=require`.
pub fn is_installed_or_skip(name: &str) -> bool {
    is_there_or_skip(name, is_installed(name))
}

/// Whether C programs that use libibverbs can be compiled and linked here: `cc` and libibverbs-dev.
/// Without them, the calling test is skipped.
///
/// # Panics
/// If not, with `ROCE_LAB=require`.
pub fn compiles_verbs_or_skip() -> bool {
    is_installed_or_skip("cc") && has_header_or_skip("infiniband/verbs.h", "libibverbs-dev")
}

/// As [`compiles_verbs_or_skip`], for programs that also use librdmacm.
///
/// # Panics
/// As there.
pub fn compiles_rdmacm_or_skip() -> bool {
    compiles_verbs_or_skip() && has_header_or_skip("rdma/rdma_cma.h", "librdmacm-dev")
}

/// Whether the process is root's. If not, the calling test is skipped.
///
/// # Panics
/// If not, with `ROCE_LAB=require`.
pub fn root_or_skip() -> bool {
    // SAFETY: the call has no parameters and can't fail.
    is_there_or_skip("root", unsafe { libc::geteuid() } == 0)
}

/// Whether `unshare --net` works: programs of the calling test can then have networks of their own.
/// If not, it is skipped.
///
/// # Panics
/// If not, with `ROCE_LAB=require`.
pub fn network_namespace_or_skip() -> bool {
    let tried = Command::new("unshare")
        .args(["--net", "ip", "link", "set", "lo", "up"])
        .stderr(Stdio::null())
        .status();
    let possible = tried.is_ok_and(|status| status.success());
    is_there_or_skip(NAMESPACES, possible)
}

/// Moves the calling thread, and the programs that it starts from now on, to a network namespace of
/// their own with the loopback interface up. If that is not possible, the calling test is skipped.
///
/// # Panics
/// If it is not, with `ROCE_LAB=require`.
pub fn enters_network_namespace_or_skip() -> bool {
    // SAFETY: the call has no pointers, and changes nothing but the network of this thread.
    let entered = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    let is_up = || {
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        up.is_ok_and(|status| status.success())
    };
    is_there_or_skip(NAMESPACES, entered && is_up())
}

/// PATH, and the folders of system tools, which an ordinary user's PATH may lack.
pub fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let tools = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    env::join_paths(env::split_paths(&path).chain(tools)).expect("no colon in a folder's name")
}

/// Whether the file `header` of the Debian package `package` is in /usr/include. If not, the calling
/// test is skipped.
///
/// # Panics
/// If it is not, with `ROCE_LAB=require`.
pub fn has_header_or_skip(header: &str, package: &str) -> bool {
    is_there_or_skip(package, Path::new("/usr/include").join(header).is_file())
}

fn is_there_or_skip(need: &str, is_there: bool) -> bool {
    if !is_there {
        skip(need, "");
    }
    is_there
}
