//! A disk that loses what was not made durable.

use super::SLOT;
use roce_stack::{Buffer, Durable, NotDurable};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that the disk writes at once.
pub(super) const SECTOR: usize = SLOT;

/// A disk, and the memory of the host that becomes durable on it.
#[derive(Debug)]
pub(super) struct Disk {
    memory: Arc<Buffer>,
    contents: Mutex<Vec<u8>>,
    /// Whether it takes time.
    slow: bool,
}

impl Disk {
    /// A host starts with these contents, which its memory has, too.
    pub(super) fn start(memory: Arc<Buffer>, contents: Vec<u8>, slow: bool) -> Arc<Self> {
        // The memory is as long as the contents.
        let _ = memory.write(0, &contents);
        Arc::new(Self {
            memory,
            contents: Mutex::new(contents),
            slow,
        })
    }

    /// Writes some sectors, counted from 0.
    pub(super) fn write(&self, sectors: core::ops::Range<usize>) -> Result<(), NotDurable> {
        let bytes = sectors.start * SECTOR..sectors.end * SECTOR;
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let end = bytes.end.min(contents.len());
        let part = contents.get_mut(bytes.start..end).ok_or(NotDurable)?;
        self.memory.read(bytes.start, part).map_err(|_| NotDurable)
    }

    /// Its contents if the power fails now.
    pub(super) fn contents(&self) -> Vec<u8> {
        let contents = self.contents.lock();
        contents.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Durable for Disk {
    fn blocks(&self, _: u64) -> bool {
        self.slow
    }

    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable> {
        let place = |at: u64| usize::try_from(at).map_err(|_| NotDurable);
        let (first, end) = (place(offset)?, place(offset + len)?);
        self.write(first / SECTOR..end.div_ceil(SECTOR))
    }
}
