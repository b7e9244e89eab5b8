//! Programs that tests run: the project's own and third-party ones.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The `roce` command: the one that the environment variable `ROCE_UNDER_TEST` names, or else the
/// one of the same build as the calling test or bench. For tests it is `roce-under-test`, which
/// cargo builds with them; for benches it is `roce` in their folder.
///
/// # Panics
/// If it was not built: cargo does so for integration tests, not for `--lib` alone.
pub fn roce() -> &'static Path {
    static ROCE: OnceLock<PathBuf> = OnceLock::new();
    ROCE.get_or_init(|| match env::var_os("ROCE_UNDER_TEST") {
        Some(path) => path.into(),
        None => sibling("roce-under-test")
            .or_else(|| sibling("roce"))
            .unwrap_or_else(|| built("roce-under-test")),
    })
}

/// A program of this package, of the same build as the calling test.
///
/// # Panics
/// If it was not built: cargo does so for integration tests, not for `--lib` alone.
pub fn built(name: &str) -> PathBuf {
    sibling(name).unwrap_or_else(|| {
        panic!(
            "no {name} above {}: run cargo build -p roce-tests --bins",
            running().display()
        )
    })
}

/// A file in the folder of the running program, or in one above it: tests are in
/// target/PROFILE/deps, examples and benches one level higher up.
fn sibling(name: &str) -> Option<PathBuf> {
    let running = running();
    let mut found = running.ancestors().map(|dir| dir.join(name));
    found.find(|path| path.is_file())
}

fn running() -> PathBuf {
    env::current_exe().expect("a running program has a path")
}

/// Whether C programs that use libibverbs can be compiled here. If not, reports on stderr that the
/// calling test is skipped and why.
///
/// # Panics
/// If not, and the environment variable `ROCE_LAB` is `require`.
pub fn compiles_verbs_or_skip() -> bool {
    const HEADER: &str = "/usr/include/infiniband/verbs.h";
    is_installed_or_skip("cc") && is_there_or_skip("libibverbs-dev", Path::new(HEADER).is_file())
}

/// A file of librdmacm-dev.
const RDMACM_HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// As [`compiles_verbs_or_skip`], for programs that use librdmacm.
///
/// # Panics
/// If not, and the environment variable `ROCE_LAB` is `require`.
pub fn compiles_rdmacm_or_skip() -> bool {
    let there = Path::new(RDMACM_HEADER).is_file();
    compiles_verbs_or_skip() && is_there_or_skip("librdmacm-dev", there)
}

/// As [`compiled_or_skip`], for a program that uses librpma.
///
/// # Panics
/// As there.
pub fn compiled_with_rpma_or_skip(source: &str) -> Option<PathBuf> {
    let header = Path::new("/usr/include/librpma.h");
    let there = is_there_or_skip("librpma-dev", header.is_file());
    (compiles_rdmacm_or_skip() && there)
        .then(|| compile("cc", source, &["-lrpma", "-libverbs", "-lrdmacm"]))
}

/// Compiles a C program of this project with the system's compiler and libibverbs, and
/// librdmacm if the machine has its header. Returns `None` if the machine lacks them, after a line
/// on stderr that the calling test is skipped.
///
/// # Panics
/// If the compilation into the folder for temporary files fails, or the machine lacks a requirement
/// and the environment variable `ROCE_LAB` is `require`.
pub fn compiled_or_skip(source: &str) -> Option<PathBuf> {
    if !compiles_verbs_or_skip() {
        return None;
    }
    Some(compile("cc", source, &libraries()))
}

/// Compiles a C program of this project with `compiler`, which can be MPI's wrapper. Returns `None`
/// if the machine lacks it, after a line on stderr.
///
/// # Panics
/// As [`compiled_or_skip`].
pub fn compiled_by_or_skip(compiler: &str, source: &str, libraries: &[&str]) -> Option<PathBuf> {
    is_installed_or_skip(compiler).then(|| compile(compiler, source, libraries))
}

fn compile(compiler: &str, source: &str, libraries: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let name = Path::new(source).file_stem().unwrap_or_default();
    // Each call has its own file, because the file of a running program can't be written.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // Not in the test's folder, which may not be writable.
    let program = env::temp_dir().join(format!(
        "roce-{}-{}-{call}",
        name.to_string_lossy(),
        std::process::id()
    ));
    let status = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(root.join(source))
        .args(libraries)
        .status()
        .expect("the compiler starts");
    assert!(status.success(), "{source} does not compile: {status}");
    program
}

/// What C programs are linked to. Those that do not use a library do not need it.
fn libraries() -> Vec<&'static str> {
    let mut libraries = vec!["-libverbs"];
    if Path::new(RDMACM_HEADER).is_file() {
        libraries.extend(["-Wl,--as-needed", "-lrdmacm"]);
    }
    libraries
}

/// Whether a third-party program is installed. If not, reports on stderr that the calling test is
/// skipped and why.
///
/// # Panics
/// If it is not, and the environment variable `ROCE_LAB` is `require`.
pub fn is_installed_or_skip(program: &str) -> bool {
    is_there_or_skip(program, is_installed(program))
}

fn is_installed(program: &str) -> bool {
    env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}

/// PATH, and the folders of system tools, which an ordinary user's PATH may lack.
pub fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let tools = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    env::join_paths(env::split_paths(&path).chain(tools)).expect("no colon in a folder's name")
}

fn is_there_or_skip(program: &str, is_there: bool) -> bool {
    if is_there {
        return true;
    }
    say_skipped(&format!("{program}, which is not installed"));
    false
}

/// Reports on stderr that the calling test is skipped because it needs `what`.
///
/// # Panics
/// If the environment variable `ROCE_LAB` is `require`.
pub fn say_skipped(what: &str) {
    assert!(
        env::var_os("ROCE_LAB").is_none_or(|value| value != "require"),
        "this needs {what}, and ROCE_LAB=require"
    );
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // To the real stderr, past the test harness, which would hide it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test} needs {what}");
}
