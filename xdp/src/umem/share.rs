//! One queue's part of the memory for frames.

use std::ops::Range;
use std::sync::Arc;

use super::CHUNK_BYTES;
use crate::sys::memory::Mapping;

/// The bytes that are brought near: all headers, and what a short packet carries.
const LINES_BYTES: usize = 128;

/// Chunks of a UMEM that belong to one queue. There are no two shares of the same
/// chunk, so whoever has a share may read and write its chunks, as long as the kernel
/// does not own them at the moment, which the [`Ledger`](super::Ledger) knows.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Mapping>,
    first: u32,
    chunks: u32,
}

impl Share {
    /// The caller cuts each chunk once.
    pub(super) fn new(memory: Arc<Mapping>, first: u32, chunks: u32) -> Self {
        Self {
            memory,
            first,
            chunks,
        }
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The addresses in the UMEM of what it has, in bytes.
    pub fn addresses(&self) -> Range<u64> {
        let byte = |chunk: u32| u64::from(chunk) * CHUNK_BYTES as u64;
        byte(self.first)..byte(self.first + self.chunks)
    }

    /// The `len` bytes at an address, if all of them are the share's.
    pub fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let range = self.range(address, len)?;
        Some(self.memory.bytes(range))
    }

    /// The `len` bytes at an address, if all of them are the share's.
    pub fn bytes_mut(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let range = self.range(address, len)?;
        // SAFETY: shares do not overlap and there is one `Share` value for each, so that
        // nobody else in this process has a reference to these bytes while `self` is
        // borrowed mutably.
        Some(unsafe { self.memory.bytes_mut(range) })
    }

    /// What begins at an address will be read soon, or nothing if that is not the share's.
    #[inline]
    pub fn bring_near(&self, address: u64) {
        if self.range(address, LINES_BYTES).is_some() {
            self.memory.bring_near(address as usize, LINES_BYTES);
        }
    }

    pub(crate) fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }

    fn range(&self, address: u64, len: usize) -> Option<Range<usize>> {
        let own = self.addresses();
        let end = address.checked_add(len as u64)?;
        (own.start <= address && end <= own.end).then_some(address as usize..end as usize)
    }
}
