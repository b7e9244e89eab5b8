//! The folder that `roce env --write` creates: links to the library, and the files that `roce run`
//! would show in `/sys` and `/dev`.

use crate::error::Error;
use crate::run::{DeviceFiles, Library};
use roce_trust::{OwnUser, files};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Marks a folder as made by this command, so that it may be replaced.
const MARK: &str = ".made-by-roce-env";

/// The parts of the folder.
const PARTS: [&str; 3] = ["lib", "sys", "dev"];

/// Writes the folder, and returns its absolute path.
///
/// # Errors
/// If the folder contains anything else, belongs to another user, or can't be written.
pub(super) fn write(
    folder: &Path,
    library: &Library,
    device_files: &DeviceFiles,
) -> Result<PathBuf, Error> {
    let failed = |error| Error::system(format_args!("write to {}", folder.display()), error);
    let folder = files::create_folders(folder).map_err(failed)?;
    let (user, owner) = (OwnUser::now(), fs::metadata(&folder).map_err(failed)?.uid());
    if !user.is(owner) {
        return Err(Error::usage(format_args!(
            "{} belongs to {}, who could replace the library in it: name a new folder",
            folder.display(),
            user.describe(owner)
        )));
    }
    let is_ours = folder.join(MARK).is_file();
    let mut entries = fs::read_dir(&folder).map_err(failed)?;
    if !is_ours && entries.next().is_some() {
        return Err(Error::usage(format_args!(
            "{} holds something else: name a new folder, or an empty one",
            folder.display()
        )));
    }
    write_parts(&folder, library, device_files).map_err(failed)?;
    Ok(folder)
}

fn write_parts(folder: &Path, library: &Library, device_files: &DeviceFiles) -> io::Result<()> {
    files::write(&folder.join(MARK), "Replaced by each `roce env --write`.\n")?;
    for part in PARTS {
        let part = folder.join(part);
        match fs::remove_dir_all(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&part)?,
        }
    }
    library.link_into(&folder.join("lib"))?;
    device_files.full_tree()?.write(folder)
}
