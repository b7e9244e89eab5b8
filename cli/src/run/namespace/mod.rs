//! A private view of `/sys/class` and `/dev/infiniband`, for this process and what it starts.
//!
//! The made-up files lie in memory, in a mount namespace of this process: nobody else sees
//! them, and the kernel takes them away with the last process that does, whatever ends it.

mod cover;
mod ids;

use super::library::Library;
use super::tree::MadeUp;
use cover::Cover;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the links to the library are, within the namespace.
const LINKS: &str = "/sys/class/roce/lib";

/// What it took to have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// This process may make mounts.
    Own,
    /// A user namespace, in which it may.
    UserNamespace,
}

/// What could not be done, and why.
#[derive(Debug)]
pub(crate) struct NamespaceError {
    what: String,
    source: io::Error,
}

impl NamespaceError {
    fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
        }
    }
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

/// A namespace that this process has entered.
#[derive(Debug)]
pub(crate) struct Entered {
    /// What it took.
    pub(crate) privilege: Privilege,
    /// The folder with links to the library.
    pub(crate) links: PathBuf,
    /// Why `/dev/infiniband` still is the system's, if it has one and it is: few programs
    /// look into it.
    pub(crate) no_dev: Option<NamespaceError>,
}

/// Enters a namespace that shows `made_up`, and links to `library`. Everything else is left
/// as it was: user, groups, all other mounts.
///
/// # Errors
/// If it can't be had. The process is then what it was before.
pub(crate) fn enter(made_up: &MadeUp, library: &Library) -> Result<Entered, NamespaceError> {
    let (privilege, no_dev) = match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => (Privilege::Own, show(made_up, Some(library))?),
        Err(Errno::EPERM) => {
            // There is no way back from a user namespace, so another process tries first.
            probe()?;
            let no_dev = enter_as_user(made_up, Some(library))?;
            (Privilege::UserNamespace, no_dev)
        }
        Err(error) => return Err(NamespaceError::new("a mount namespace", error)),
    };
    Ok(Entered {
        privilege,
        links: LINKS.into(),
        no_dev,
    })
}

/// Enters a user namespace, in which mounts are allowed. Returns why `/dev/infiniband` still is
/// the system's, if it is.
///
/// # Errors
/// If it can't be had. The process may have lost what it was allowed to before.
pub(crate) fn enter_as_user(
    made_up: &MadeUp,
    library: Option<&Library>,
) -> Result<Option<NamespaceError>, NamespaceError> {
    let ids = ids::Ids::own();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|error| NamespaceError::new("a user namespace", error))?;
    ids.map()
        .map_err(|error| NamespaceError::new("the user in a user namespace", error))?;
    show(made_up, library)
}

/// Whether [`enter_as_user`] works here, found out by another process.
fn probe() -> Result<(), NamespaceError> {
    let failed = |error| NamespaceError::new("a private /sys", error);
    let output = Command::new("/proc/self/exe")
        .arg(super::PROBE)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix("roce: ").unwrap_or(said.trim());
    Err(failed(io::Error::other(said)))
}

/// Makes the mounts of a namespace that is this process's own.
fn show(
    made_up: &MadeUp,
    library: Option<&Library>,
) -> Result<Option<NamespaceError>, NamespaceError> {
    // What is mounted outside later is still seen, and nothing of this is seen outside.
    mount(
        None::<&Path>,
        "/",
        None::<&Path>,
        MsFlags::MS_REC | MsFlags::MS_SLAVE,
        None::<&Path>,
    )
    .map_err(|error| NamespaceError::new("make mounts private", error))?;
    // Whoever the program becomes can read the files.
    let before = umask(Mode::from_bits_truncate(0o022));
    let shown = show_class(made_up, library).map(|()| show_dev(made_up).err());
    umask(before);
    shown
}

fn show_class(made_up: &MadeUp, library: Option<&Library>) -> Result<(), NamespaceError> {
    let hidden = [MadeUp::CLASSES.as_slice(), &["roce"]].concat();
    let failed = |error| NamespaceError::new("a folder in memory over /sys/class", error);
    let class = Cover::over(Path::new("/sys/class"), &hidden).map_err(failed)?;
    let fill = |root: &Path| {
        made_up.class.write(root)?;
        fs::create_dir_all(LINKS)?;
        library.map_or(Ok(()), |library| library.link_into(Path::new(LINKS)))
    };
    class.fill(fill).map_err(failed)
}

/// Hides the system's `/dev/infiniband`, if there is one. Where there is none, none can be made:
/// a cover over all of `/dev` would be needed, and the kernel opens no pseudoterminals by a
/// `/dev/ptmx` that is a bind mount.
fn show_dev(made_up: &MadeUp) -> Result<(), NamespaceError> {
    let folder = Path::new("/dev/infiniband");
    if !folder.is_dir() {
        return Ok(());
    }
    let failed = |error| NamespaceError::new("a folder in memory over /dev/infiniband", error);
    let dev = Cover::hiding(folder).map_err(failed)?;
    dev.fill(|root| made_up.dev.write(root)).map_err(failed)
}
