//! One queue's part of the memory for frames.

use std::ops::Range;
use std::sync::Arc;

use super::CHUNK_BYTES;
use crate::sys::memory::Mapping;

/// The number of bytes to prefetch: all headers, and the payload of a short packet.
const PREFETCH_BYTES: usize = 128;

/// The chunks of a UMEM that belong to one queue. No two shares have the same chunk. So the owner
/// of a share may read and write its chunks, except for those that the kernel has at the moment
/// according to the [`Ledger`](super::Ledger).
#[derive(Debug)]
pub struct Share {
    memory: Arc<Mapping>,
    first: u32,
    chunks: u32,
}

impl Share {
    /// A share of `chunks` chunks from `first` on. The caller must not put a chunk into two shares.
    pub(super) fn new(memory: Arc<Mapping>, first: u32, chunks: u32) -> Self {
        Self {
            memory,
            first,
            chunks,
        }
    }

    /// The number of its chunks.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The range of its addresses in the UMEM, in bytes.
    pub fn addresses(&self) -> Range<u64> {
        let byte = |chunk: u32| u64::from(chunk) * CHUNK_BYTES as u64;
        byte(self.first)..byte(self.first + self.chunks)
    }

    /// The `len` bytes at an address, if the share has all of them.
    pub fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let range = self.range(address, len)?;
        Some(self.memory.bytes(range))
    }

    /// The `len` bytes at an address, mutably, if the share has all of them.
    pub fn bytes_mut(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let range = self.range(address, len)?;
        // SAFETY: shares do not overlap, and there is one `Share` value for each, so no other
        // reference to these bytes exists in this process while `self` is borrowed mutably.
        Some(unsafe { self.memory.bytes_mut(range) })
    }

    /// Prefetches the bytes at an address. Does nothing if they are outside the share.
    #[inline]
    pub fn prefetch(&self, address: u64) {
        if self.range(address, PREFETCH_BYTES).is_some() {
            self.memory.prefetch(address as usize, PREFETCH_BYTES);
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
