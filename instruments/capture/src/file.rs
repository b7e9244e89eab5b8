//! The file of a capture. It contains only complete blocks.

use crate::CreateError;
use crate::name::numbered;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc::{O_CREAT, O_EXCL, O_RDWR, O_WRONLY};
use nix::unistd::{AccessFlags, faccessat};
use roce_trust::{OwnUser, files};
use std::fs::{File, FileType};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The highest number in a file name.
const MAX_NUMBER: u32 = 9999;

/// The output of a capture.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// The length of the complete blocks in the file, in bytes.
    complete_bytes: u64,
    /// Whether this is a regular file, in which a partial write can be undone.
    is_regular: bool,
}

/// The first bytes of a capture file, pcapng or pcap, in either byte order.
const MAGIC: [[u8; 4]; 5] = [
    [0x0a, 0x0d, 0x0d, 0x0a],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

/// Creates a file called `wanted`, or a numbered variant if that name is taken. Tries the names
/// from number `first` on. Returns the file, its path and the number in its name.
pub(crate) fn create_under_free_name(
    wanted: &Path,
    first: u32,
) -> Result<(Output, PathBuf, u32), CreateError> {
    let mut path = wanted.to_owned();
    for number in first..=MAX_NUMBER {
        path = numbered(wanted, number);
        if files::is_descriptor_path(&path) {
            return Ok((open_existing(&path)?, path, number));
        }
        match create_private(&path) {
            Ok(file) => return Ok((Output::new(file, true), path, number)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(CreateError::Io { path, source }),
        }
        // If a regular file or a link has the name, try the next name. If a pipe or a device has
        // it, open that.
        let found = std::fs::symlink_metadata(&path).map(|found| found.file_type());
        let is_special = |kind: FileType| !kind.is_file() && !kind.is_symlink();
        if found.is_ok_and(is_special) {
            return Ok((open_existing(&path)?, path, number));
        }
    }
    Err(CreateError::Taken { path })
}

/// Checks that this user may create files in `folder`, unless `path` is a pipe or a device, which would be
/// opened.
pub(crate) fn check_creatable(path: &Path, folder: &Path) -> Result<(), CreateError> {
    let found = std::fs::symlink_metadata(path).map(|found| found.file_type());
    let is_special = found.is_ok_and(|kind| !kind.is_file() && !kind.is_symlink());
    if is_special || files::is_descriptor_path(path) {
        return Ok(());
    }
    let access = AccessFlags::W_OK | AccessFlags::X_OK;
    faccessat(AT_FDCWD, folder, access, AtFlags::AT_EACCESS)
        .map_err(|error| io_error(path, error.into()))
}

/// Creates the file. An existing file is truncated if it belongs to this user and is a capture or
/// empty.
pub(crate) fn replace(path: &Path) -> Result<Output, CreateError> {
    if files::is_descriptor_path(path) {
        let output = open_existing(path)?;
        if output.is_regular {
            // The shell has opened the file. With `>>`, it has not truncated the file, so do that
            // here.
            let _ = output.file.set_len(0);
        }
        return Ok(output);
    }
    match create_private(path) {
        Ok(file) => return Ok(Output::new(file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(io_error(path, source)),
    }
    let output = open_existing(path)?;
    if output.is_regular {
        check_replaceable(&output.file).map_err(|why| in_the_way(path, why))?;
        output
            .file
            .set_len(0)
            .map_err(|source| io_error(path, source))?;
    }
    Ok(output)
}

/// Creates a file that is readable only by the user, since it will hold the data that programs sent.
fn create_private(path: &Path) -> io::Result<File> {
    // O_EXCL: a link at this name is never followed.
    files::open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
}

/// Opens an existing file. Follows no links except those to descriptors.
fn open_existing(path: &Path) -> Result<Output, CreateError> {
    let opened = match files::is_descriptor_path(path) {
        true => File::options().write(true).open(path),
        false => {
            let found = std::fs::symlink_metadata(path);
            let (found, user) = (
                found.map_err(|source| io_error(path, source))?,
                OwnUser::now(),
            );
            // Opening a pipe waits for its reader. Another user's may have none, for ever.
            if found.file_type().is_fifo() && !user.is(found.uid()) {
                let owner = user.describe(found.uid());
                return Err(in_the_way(
                    path,
                    format!("it is a pipe that belongs to {owner}"),
                ));
            }
            // A file is also opened for reading, to check its first bytes.
            let access = if found.is_file() { O_RDWR } else { O_WRONLY };
            files::open(path, access, 0)
        }
    };
    let file = match opened {
        Ok(file) => file,
        // A link, at the last name or another user's on the way.
        Err(source) if source.raw_os_error().is_none() => {
            return Err(in_the_way(path, source.to_string()));
        }
        Err(source) => return Err(io_error(path, source)),
    };
    let metadata = file.metadata().map_err(|source| io_error(path, source))?;
    if metadata.file_type().is_block_device() {
        return Err(in_the_way(path, "it is a disk".to_owned()));
    }
    Ok(Output::new(file, metadata.is_file()))
}

/// Checks that a file may be truncated. The error is the reason why not.
fn check_replaceable(file: &File) -> Result<(), String> {
    files::check_own(file).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if metadata.len() == 0 {
        return Ok(());
    }
    let mut magic = [0; 4];
    let is_capture = file.read_exact_at(&mut magic, 0).is_ok() && MAGIC.contains(&magic);
    match is_capture {
        true => Ok(()),
        false => Err("it is no capture".to_owned()),
    }
}

fn in_the_way(path: &Path, why: String) -> CreateError {
    CreateError::InTheWay {
        path: path.to_owned(),
        why,
    }
}

fn io_error(path: &Path, source: io::Error) -> CreateError {
    CreateError::Io {
        path: path.to_owned(),
        source,
    }
}

impl Output {
    fn new(file: File, is_regular: bool) -> Self {
        Self {
            file,
            complete_bytes: 0,
            is_regular,
        }
    }

    /// The length of the complete blocks in the file, in bytes; `None` for a pipe or a device.
    pub(crate) fn len(&self) -> Option<u64> {
        self.is_regular.then_some(self.complete_bytes)
    }

    /// Writes complete blocks.
    ///
    /// # Errors
    /// The OS error. A partial write is undone if possible. The caller must not write again.
    pub(crate) fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        let result = self.file.write_all(blocks);
        match &result {
            Ok(()) => self.complete_bytes += blocks.len() as u64,
            Err(_) if self.is_regular => {
                // Best effort: a truncated block at the end does not hide those before it.
                let _ = self.file.set_len(self.complete_bytes);
            }
            Err(_) => {}
        }
        result
    }
}
