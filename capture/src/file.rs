//! The file behind a capture: nothing but whole blocks ever stay in it.

use crate::CreateError;
use crate::name::numbered;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names that are tried before the user has to choose another.
const MAX_NUMBER: u32 = 9999;

/// What blocks are written to.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// Bytes of whole blocks in it.
    whole: u64,
    /// Whether what was written can be taken back: not from a pipe or a device.
    regular: bool,
}

/// Makes a file called `wanted`, or nearly so if that name is taken.
pub(crate) fn create_beside_others(wanted: &Path) -> Result<(Output, PathBuf), CreateError> {
    let mut path = wanted.to_owned();
    for number in 1..=MAX_NUMBER {
        path = numbered(wanted, number);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((Output::new(file, true), path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(CreateError::Io { path, source }),
        }
        // The file of somebody else stays as it is; /dev/stderr or a pipe is meant.
        let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
        if !is_file {
            let file = open_special(&path)?;
            return Ok((file, path));
        }
    }
    Err(CreateError::Taken { path })
}

/// Makes the file, empties the one that there is.
pub(crate) fn replace(path: &Path) -> Result<Output, CreateError> {
    match OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
    {
        Ok(file) => {
            let regular = file.metadata().is_ok_and(|found| found.is_file());
            Ok(Output::new(file, regular))
        }
        Err(source) => Err(CreateError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

fn open_special(path: &Path) -> Result<Output, CreateError> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(Output::new(file, false)),
        Err(source) => Err(CreateError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

impl Output {
    fn new(file: File, regular: bool) -> Self {
        Self {
            file,
            whole: 0,
            regular,
        }
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// The operating system's. What was written of these blocks is taken back as far as
    /// that goes, and nothing may be written any more.
    pub(crate) fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        let result = self.file.write_all(blocks);
        match &result {
            Ok(()) => self.whole += blocks.len() as u64,
            Err(_) if self.regular => {
                // Best effort: a cut block at the end does not hide those before it.
                let _ = self.file.set_len(self.whole);
            }
            Err(_) => {}
        }
        result
    }
}
