//! `/dev/infiniband`.
//!
//! If the system has this folder, a tmpfs covers it. If not, all of `/dev` is covered, in one of
//! two ways:
//!
//! - an overlay: `/dev` with a layer in memory for new files. Device files that the kernel or
//!   `nvidia-modprobe` makes later are visible. The kernel opens no device file of an overlay that
//!   was mounted in a user namespace;
//! - a tmpfs with each entry of `/dev` mounted into it, which works in a user namespace. Later
//!   entries are not visible.

use super::DeviceFiles;
use super::cover::Cover;
use crate::error::Error;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

const DEV: &str = "/dev";
const INFINIBAND: &str = "/dev/infiniband";
const PTMX: &str = "/dev/ptmx";

/// The path where all of the covered `/dev` stays visible, read-only: what removes `/sys/class/roce`
/// must not remove files in the system's `/dev/shm`. Its devices can be opened for writing.
pub(super) const KEPT: &str = "/sys/class/roce/dev";

/// Shows `device_files` in `/dev/infiniband`. Returns what was mounted, for messages.
///
/// # Errors
/// If it is not possible. `/dev` is then unchanged.
pub(super) fn show(device_files: &DeviceFiles, as_user: bool) -> Result<&'static str, Error> {
    let fill = |root: &Path| make_devices(device_files, root);
    let folder = Path::new(INFINIBAND);
    if folder.is_dir() {
        let hide = || Cover::hiding(folder)?.fill(fill);
        let failed = |e| Error::system("a folder in memory over /dev/infiniband", e);
        return hide().map(|()| INFINIBAND).map_err(failed);
    }
    let why = match as_user {
        false => match overlay(device_files) {
            Ok(()) => return Ok("/dev (an overlay over it)"),
            Err(error) => format!(" (no overlay over it: {error})"),
        },
        true => String::new(),
    };
    let what = format!("a folder in memory over /dev{why}");
    entries(device_files).map_err(|error| Error::system(what, error))?;
    Ok("/dev (a folder in memory over it, with its entries)")
}

/// Makes the device files in `folder`. They are mounts of an existing device, because a user
/// namespace may create none.
fn make_devices(device_files: &DeviceFiles, folder: &Path) -> io::Result<()> {
    for name in &device_files.dev {
        let at = folder.join(name);
        File::create_new(&at)?;
        bind(Path::new(DeviceFiles::DEVICE), &at).map_err(|error| {
            context(
                error,
                format!("{} as {}", DeviceFiles::DEVICE, at.display()),
            )
        })?;
    }
    Ok(())
}

/// Covers `/dev` with an overlay.
fn overlay(device_files: &DeviceFiles) -> io::Result<()> {
    let before = opening();
    let below = handle()?;
    let submounts = submounts()?;
    // The upper layer. It is invisible, because the overlay covers it.
    let memory = Mounts::default().add("tmpfs", "mode=0755,size=64m")?;
    for name in ["upper", "work"] {
        fs::create_dir(Path::new(DEV).join(name))?;
    }
    let options = format!(
        "lowerdir={},upperdir=/dev/upper,workdir=/dev/work",
        path_of(&below).display()
    );
    let mounts = memory.add("overlay", &options)?;
    for submount in submounts {
        bind(
            &path_of(&below).join(&submount),
            &Path::new(DEV).join(&submount),
        )
        .map_err(|error| context(error, format!("keep /dev/{}", submount.display())))?;
    }
    fs::create_dir(INFINIBAND)?;
    make_devices(device_files, Path::new(INFINIBAND))?;
    check_opening(&before)?;
    mounts.keep();
    Ok(())
}

/// Covers `/dev` with a tmpfs that has the same entries.
fn entries(device_files: &DeviceFiles) -> io::Result<()> {
    let before = opening();
    // A ptmx that is mounted alone makes no pseudoterminals: the kernel looks for the folder `pts`
    // beside it. The one in `pts` works, but most systems deny opening it. The one in the preserved
    // `/dev` works, too.
    let ptmx = match fs::symlink_metadata(PTMX) {
        Ok(found) if found.is_symlink() => None,
        Ok(_) if opens("/dev/pts/ptmx") => Some(PathBuf::from("pts/ptmx")),
        Ok(_) => Some(Path::new(KEPT).join("ptmx")),
        Err(_) => None,
    };
    let hidden = match ptmx {
        Some(_) => &["infiniband", "ptmx"][..],
        None => &["infiniband"],
    };
    bind(Path::new(DEV), Path::new(KEPT))?;
    make_read_only(Path::new(KEPT)).map_err(|error| context(error, format!("protect {KEPT}")))?;
    Cover::over(Path::new(DEV), hidden)?.fill(|root| {
        if let Some(target) = &ptmx {
            symlink(target, root.join("ptmx"))?;
        }
        let folder = root.join("infiniband");
        fs::create_dir(&folder)?;
        make_devices(device_files, &folder)?;
        check_opening(&before)
    })
}

fn opens(path: &str) -> bool {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC);
    options.open(path).is_ok()
}

/// The device files that open. A mount over `/dev` may break them.
fn opening() -> Vec<&'static str> {
    let all = ["/dev/null", PTMX];
    all.into_iter().filter(|path| opens(path)).collect()
}

/// Checks that these device files still open.
fn check_opening(paths: &[&str]) -> io::Result<()> {
    match paths.iter().find(|path| !opens(path)) {
        Some(path) => Err(io::Error::other(format!("{path} would not open in it"))),
        None => Ok(()),
    }
}

/// Mounts over `/dev`. They are undone when dropped, unless they are kept.
#[derive(Default)]
struct Mounts(usize);

impl Mounts {
    fn add(mut self, kind: &str, options: &str) -> io::Result<Self> {
        let flags = MsFlags::MS_NOSUID;
        mount(Some("roce"), DEV, Some(kind), flags, Some(options))?;
        self.0 += 1;
        Ok(self)
    }

    fn keep(mut self) {
        self.0 = 0;
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for _ in 0..self.0 {
            // If this fails, nothing can be done; the namespace belongs to this process only.
            let _ = umount2(DEV, MntFlags::MNT_DETACH);
        }
    }
}

/// A handle to the current `/dev`, independent of later mounts over it.
fn handle() -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open(DEV, flags, Mode::empty())?)
}

fn path_of(handle: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string())
}

/// The mounts below `/dev`, as relative paths, without those below another mount.
fn submounts() -> io::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(topmost(&table))
}

fn topmost(table: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter_map(|path| Path::new(path).strip_prefix(DEV).ok())
        .filter(|path| !path.as_os_str().is_empty())
        // The kernel writes spaces and the like as `\040`.
        .map(|path| PathBuf::from(super::unescape(&path.to_string_lossy())))
        .collect();
    found.sort();
    found.dedup_by(|next, before| next.starts_with(&*before));
    found
}

/// Recursively bind-mounts `from` at `at`.
fn bind(from: &Path, at: &Path) -> Result<(), Errno> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from), at, None::<&Path>, flags, None::<&Path>)
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 1;

/// Makes a mount and all mounts below it read-only. Linux before 5.12 can't, and then they stay
/// writable.
fn make_read_only(at: &Path) -> Result<(), Errno> {
    let path = CString::new(at.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: the path ends with 0, and the structure has the length that is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    match Errno::result(result) {
        Ok(_) | Err(Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error),
    }
}

fn context(error: Errno, what: String) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_dev_are_kept_once() {
        let table = "\
20 1 0:5 / /dev rw - devtmpfs devtmpfs rw
21 20 0:6 / /dev/shm rw - tmpfs tmpfs rw
22 20 0:7 / /dev/pts rw - devpts devpts rw
23 20 0:7 / /dev/pts rw - devpts devpts rw
24 21 0:8 / /dev/shm/below rw - tmpfs tmpfs rw
25 20 0:8 / /dev/shm2 rw - tmpfs tmpfs rw
26 20 0:9 / /dev/a\\040b rw - tmpfs tmpfs rw
27 1 0:9 / /devices rw - tmpfs tmpfs rw
a line that makes no sense
";
        let expected = ["a b", "pts", "shm", "shm2"].map(PathBuf::from);
        assert_eq!(topmost(table), expected);
    }
}
