//! A tmpfs mounted over a folder. It shows the folder's entries and can hold more.

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Options of the tmpfs; its size is more than all device files need.
const SIZE: &str = "mode=0755,size=64m";

/// The cover, while it is writable. It is removed if dropped before it is filled.
pub(super) struct Cover {
    folder: PathBuf,
    kept: bool,
}

impl Cover {
    /// Covers `folder` with a tmpfs that has the same entries, except for those in `hidden`.
    pub(super) fn over(folder: &Path, hidden: &[&str]) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let below = open(folder, flags, Mode::empty())?;
        let entries: Vec<fs::DirEntry> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
        let cover = Self::hiding(folder)?;
        for entry in entries {
            let name = entry.file_name();
            if !hidden.iter().any(|hidden| name == *hidden) {
                cover.show(&below, &name, &entry).map_err(|error| {
                    let kind = error.kind();
                    io::Error::new(kind, format!("keep {}: {error}", entry.path().display()))
                })?;
            }
        }
        Ok(cover)
    }

    /// Covers `folder` with an empty tmpfs.
    pub(super) fn hiding(folder: &Path) -> io::Result<Self> {
        mount(
            Some("roce"),
            folder,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some(SIZE),
        )?;
        Ok(Self {
            folder: folder.to_owned(),
            kept: false,
        })
    }

    /// Lets `write` add entries, and then makes the cover read-only.
    pub(super) fn fill(mut self, write: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        write(&self.folder)?;
        let flags = MsFlags::MS_REMOUNT
            | MsFlags::MS_BIND
            | MsFlags::MS_RDONLY
            | MsFlags::MS_NOSUID
            | MsFlags::MS_NODEV;
        mount(
            None::<&Path>,
            &self.folder,
            None::<&Path>,
            flags,
            None::<&Path>,
        )?;
        self.kept = true;
        Ok(())
    }

    /// Shows an entry of the covered folder: a link as the same link, anything else as a recursive
    /// bind mount.
    fn show(&self, below: &OwnedFd, name: &OsStr, entry: &fs::DirEntry) -> io::Result<()> {
        let at = self.folder.join(name);
        // The folder's path now leads to the cover; the descriptor does not.
        let source = Path::new("/proc/self/fd")
            .join(below.as_raw_fd().to_string())
            .join(name);
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            return symlink(fs::read_link(source)?, at);
        }
        if kind.is_dir() {
            fs::create_dir(&at)?;
        } else {
            File::create_new(&at)?;
        }
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        match mount(Some(&source), &at, None::<&Path>, flags, None::<&Path>) {
            Ok(()) => Ok(()),
            // The entry vanished meanwhile.
            Err(nix::errno::Errno::ENOENT) => fs::remove_file(&at).or_else(|_| fs::remove_dir(&at)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        if !self.kept {
            // If this fails, too, nothing can be done; the namespace belongs to this process only.
            let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        }
    }
}
