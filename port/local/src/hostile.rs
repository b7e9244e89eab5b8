//! The other end of a ring, which writes what it likes, for the fuzz target `lane` and for tests.

use crate::mapping::{HEADER_BYTES, Mapping, RING_BYTES};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

/// The process at the other end: it has the ring's file.
#[derive(Debug)]
pub(crate) struct Hostile {
    file: File,
    ring: Mapping,
}

impl Hostile {
    /// The process that has `file`, or has sent it.
    ///
    /// # Errors
    /// If the file is not a ring's, or the system refuses a descriptor.
    pub(crate) fn new(file: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            ring: Mapping::open(file.as_fd())?,
            file: file.try_clone()?.into(),
        })
    }

    pub(crate) fn set_tail(&self, tail: u64) {
        self.ring.counters().advance_tail(tail);
    }

    pub(crate) fn set_head(&self, head: u64) {
        self.ring.counters().advance_head(head);
    }

    /// Writes the head of a record at a position of the ring.
    pub(crate) fn write_record(&self, position: u64, len: u32, count: u16) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&len.to_ne_bytes());
        head[4..6].copy_from_slice(&count.to_ne_bytes());
        self.write(HEADER_BYTES + position as usize % RING_BYTES, &head);
    }

    /// Writes bytes anywhere in the file, which ends the writing.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let at = at % (HEADER_BYTES + RING_BYTES);
        let len = bytes.len().min(HEADER_BYTES + RING_BYTES - at);
        let written = self.file.write_all_at(&bytes[..len], at as u64);
        written.expect("the file can be written");
    }
}
