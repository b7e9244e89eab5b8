//! The sequence of a capture's files: what happens when one reaches its limit.

use crate::file::{Output, create_under_free_name};
use crate::limits::{Limits, Size};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// The files of a capture.
#[derive(Debug)]
pub(crate) struct Ring {
    limits: Limits,
    /// The requested name.
    wanted: PathBuf,
    /// The existing files, the oldest first.
    files: VecDeque<PathBuf>,
    /// The number in the last file's name.
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

    /// The current file.
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

    /// Starts the next file, and removes the oldest if there are too many.
    ///
    /// # Errors
    /// If only one file is allowed, or the next can't be made.
    pub(crate) fn next(&mut self) -> io::Result<Output> {
        if self.limits.files <= 1 {
            return Err(io::Error::other(self.full()));
        }
        let made = create_under_free_name(&self.wanted, self.number + 1);
        let (output, path, number) = made.map_err(|error| io::Error::other(error.to_string()))?;
        self.number = number;
        self.files.push_back(path);
        while self.files.len() > self.limits.files as usize {
            if let Some(oldest) = self.files.pop_front() {
                // The user may have moved it.
                let _ = std::fs::remove_file(oldest);
            }
        }
        Ok(output)
    }

    /// The message when a single file ends.
    fn full(&self) -> String {
        let limit = Size(self.limits.bytes.unwrap_or_default());
        let name = self.wanted.display();
        format!(
            "it has come to its limit of {limit}. {name},limit=SIZE allows more, {name},files=N \
             keeps the latest N files"
        )
    }
}
