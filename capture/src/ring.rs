//! The files of a capture, one after the other: what happens when one has come to its limit.

use crate::file::{Output, create_beside_others};
use crate::limits::{Limits, Size};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    limits: Limits,
    /// The name that was asked for.
    wanted: PathBuf,
    /// The files that there are, the oldest first.
    files: VecDeque<PathBuf>,
    /// Which name the last of them has, of those for `wanted`.
    number: u32,
}

impl Ring {
    pub(crate) fn new(limits: Limits, wanted: PathBuf, path: PathBuf, number: u32) -> Self {
        Self {
            limits,
            wanted,
            files: VecDeque::from([path]),
            number,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The file that is written now.
    pub(crate) fn path(&self) -> &Path {
        self.files.back().unwrap_or(&self.wanted)
    }

    /// Whether a file of `len` bytes has room for `more`.
    pub(crate) fn has_room(&self, len: Option<u64>, more: usize) -> bool {
        match (self.limits.bytes, len) {
            (Some(most), Some(len)) => len.saturating_add(more as u64) <= most,
            _ => true,
        }
    }

    /// The next file; the oldest goes if there are too many then.
    ///
    /// # Errors
    /// If there is to be one file only, or the next can't be made.
    pub(crate) fn next(&mut self) -> io::Result<Output> {
        if self.limits.files <= 1 {
            return Err(io::Error::other(self.full()));
        }
        let made = create_beside_others(&self.wanted, self.number + 1);
        let (output, path, number) = made.map_err(|error| io::Error::other(error.to_string()))?;
        self.number = number;
        self.files.push_back(path);
        while self.files.len() > self.limits.files as usize {
            if let Some(oldest) = self.files.pop_front() {
                // Somebody may have moved it away.
                let _ = std::fs::remove_file(oldest);
            }
        }
        Ok(output)
    }

    /// Why a single file ends.
    fn full(&self) -> String {
        let limit = Size(self.limits.bytes.unwrap_or_default());
        let name = self.wanted.display();
        format!(
            "it has come to its limit of {limit}. {name},limit=SIZE allows more, {name},files=N \
             keeps the latest N files"
        )
    }
}
