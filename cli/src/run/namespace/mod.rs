//! A private view of `/sys/class` and `/dev/infiniband`, for this process and its children.
//!
//! The device files are in memory, in a mount namespace of this process. No other process sees
//! them, and the kernel removes them with the last process that does, however it ends.

mod cover;
mod dev;

use super::library::Library;
use super::tree::DeviceFiles;
use crate::error::Error;
use cover::Cover;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{getegid, geteuid};
use roce_trust::map_ids;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder for links to the library, within the namespace.
pub(crate) const LINKS: &str = "/sys/class/roce/lib";

/// A namespace that this process has entered.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The folder in `/dev` that shows the devices, or why only the system's `/dev/infiniband` does.
    pub(crate) dev: Result<&'static str, Error>,
    /// Why this process needs a user namespace to mount; `None` if it needs none.
    pub(crate) mount_denied: Option<Error>,
}

impl fmt::Display for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mount_denied {
            None => f.write_str("way 1 of 3, a mount namespace: ")?,
            Some(why) => write!(
                f,
                "way 2 of 3, a user and a mount namespace (not way 1, a mount namespace alone: \
                 {why}): "
            )?,
        }
        match &self.dev {
            Ok(dev) => write!(f, "/sys/class and {dev} show its devices"),
            Err(_) => f.write_str("/sys/class shows its devices"),
        }
    }
}

/// Enters a namespace that shows `device_files` and links to `library`. Everything else stays as it
/// was: user, groups, all other mounts.
///
/// # Errors
/// If it is not possible. The process is then unchanged.
pub(crate) fn enter(device_files: &DeviceFiles, library: &Library) -> Result<Entered, Error> {
    let mount_denied = match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => None,
        Err(error @ Errno::EPERM) => {
            Some(Error::system("a mount namespace", io::Error::from(error)))
        }
        Err(error) => return Err(Error::system("a mount namespace", io::Error::from(error))),
    };
    let dev = match mount_denied {
        None => show(device_files, Some(library), false)?,
        Some(_) => {
            probe().map_err(|error| Error::system("a private /sys", error))?;
            enter_as_user(device_files, Some(library))?
        }
    };
    Ok(Entered { dev, mount_denied })
}

/// Enters a user namespace, in which mounts are allowed. Returns [`Entered::dev`].
///
/// # Errors
/// If it is not possible. The process may have lost permissions that it had before.
pub(crate) fn enter_as_user(
    device_files: &DeviceFiles,
    library: Option<&Library>,
) -> Result<Result<&'static str, Error>, Error> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|error| Error::system("a user namespace", io::Error::from(error)))?;
    map_ids(user.as_raw(), group.as_raw())
        .map_err(|error| Error::system("the user in a user namespace", error))?;
    show(device_files, library, true)
}

/// Tests in another process whether [`enter_as_user`] works here: a process can't leave a namespace that it
/// entered.
pub(crate) fn probe() -> io::Result<()> {
    let output = Command::new("/proc/self/exe")
        .arg(super::PROBE)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(io::Error::other(
        said.strip_prefix("roce: ").unwrap_or(said),
    ))
}

/// Makes the mounts of a namespace that belongs to this process.
fn show(
    device_files: &DeviceFiles,
    library: Option<&Library>,
    as_user: bool,
) -> Result<Result<&'static str, Error>, Error> {
    // Later mounts outside are still visible here, and none of these mounts is visible outside.
    mount(
        None::<&Path>,
        "/",
        None::<&Path>,
        MsFlags::MS_REC | MsFlags::MS_SLAVE,
        None::<&Path>,
    )
    .map_err(|error| Error::system("make mounts private", io::Error::from(error)))?;
    // Any user that the program switches to can read the files.
    let before = umask(Mode::from_bits_truncate(0o022));
    let shown = show_class(device_files, library).map(|()| dev::show(device_files, as_user));
    umask(before);
    shown
}

fn show_class(device_files: &DeviceFiles, library: Option<&Library>) -> Result<(), Error> {
    let hidden = [DeviceFiles::CLASSES.as_slice(), &["roce"]].concat();
    let failed = |error| Error::system("a folder in memory over /sys/class", error);
    let class = Cover::over(Path::new("/sys/class"), &hidden).map_err(failed)?;
    let fill = |root: &Path| {
        device_files.class.write(root)?;
        fs::create_dir_all(LINKS)?;
        fs::create_dir_all(dev::KEPT)?;
        library.map_or(Ok(()), |library| library.link_into(Path::new(LINKS)))
    };
    class.fill(fill).map_err(failed)
}

/// Unescapes a path of the kernel's mount tables: `\040` is a space.
fn unescape(text: &str) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let (meant, left) = match octal {
            Some(octal) if byte == b'\\' => (octal, &after[3..]),
            _ => (byte, after),
        };
        bytes.push(meant);
        rest = left;
    }
    OsString::from_vec(bytes)
}
