//! The sequence of a capture's files. When one reaches its limit, the next one starts.

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

    /// Whether a file of `len` bytes has space for `more` bytes. A file without a length is a pipe
    /// or a device, which has no limit.
    pub(crate) fn has_space(&self, len: Option<u64>, more: usize) -> bool {
        match (self.limits.bytes, len) {
            (Some(max), Some(len)) => len.saturating_add(more as u64) <= max,
            _ => true,
        }
    }

    /// Starts the next file, and removes the oldest if there are too many.
    pub(crate) fn next(&mut self) -> io::Result<Output> {
        if self.limits.files <= 1 {
            return Err(io::Error::other(self.limit_message()));
        }
        let created = create_under_free_name(&self.wanted, self.number + 1);
        let (output, path, number) =
            created.map_err(|error| io::Error::other(error.to_string()))?;
        self.number = number;
        self.files.push_back(path);
        while self.files.len() > self.limits.files as usize {
            if let Some(oldest) = self.files.pop_front() {
                // The user may have moved the file.
                let _ = std::fs::remove_file(oldest);
            }
        }
        Ok(output)
    }

    /// The reason why a capture with a single file ends.
    fn limit_message(&self) -> String {
        let limit = Size(self.limits.bytes.unwrap_or_default());
        let name = self.wanted.display();
        format!(
            "it has reached its limit of {limit}. {name},limit=SIZE allows more, {name},files=N \
             keeps the latest N files"
        )
    }
}
