//! The memory for frames, shared with the kernel.
//!
//! A UMEM is one mapping of chunks of [`CHUNK_BYTES`]. It is cut into one [`Share`] for each queue,
//! which no other queue touches. Queues therefore share only the mapping and its registration, and
//! need no lock. The [`Ledger`] of a share records the owner of each chunk.

mod ledger;
mod share;

pub(crate) use ledger::is_in_one_chunk;
pub use ledger::{ChunkCounts, ChunkFault, Ledger, Owner};
pub use share::Share;

use std::io;
use std::sync::Arc;

use crate::sys::memory::Mapping;

/// Length of a chunk in bytes. The kernel allows no more than a page.
pub const CHUNK_BYTES: usize = 4096;

/// The maximum number of bytes of a received frame in one chunk. The kernel reserves 256 bytes in
/// front.
pub const RX_PIECE_BYTES: usize = 3840;

/// The kernel's allowance around an IP packet, in bytes: Ethernet, two VLAN tags and the frame
/// check sequence.
pub(crate) const LINK_OVERHEAD_BYTES: usize = 14 + 2 * 4 + 4;

/// Memory for frames, before it is cut into shares.
#[derive(Debug)]
pub struct Umem {
    memory: Arc<Mapping>,
}

impl Umem {
    /// Allocates `chunks` chunks, in huge pages if available, otherwise in ordinary ones.
    ///
    /// # Errors
    /// If the system doesn't have enough memory.
    pub fn new(chunks: u32) -> io::Result<Self> {
        let memory = Mapping::new(chunks as usize * CHUNK_BYTES)?;
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// Whether the memory is in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.memory.is_huge()
    }

    /// Cuts the memory into shares with the given numbers of chunks.
    ///
    /// # Errors
    /// If there are not enough chunks.
    pub fn cut(self, chunks: &[u32]) -> io::Result<Vec<Share>> {
        let wanted: u64 = chunks.iter().map(|&count| u64::from(count)).sum();
        let there = (self.memory.len() / CHUNK_BYTES) as u64;
        if wanted > there {
            let what = format!("shares of {wanted} chunks in memory of {there}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut first = 0;
        let share = |&count: &u32| {
            let share = Share::new(Arc::clone(&self.memory), first, count);
            first += count;
            share
        };
        Ok(chunks.iter().map(share).collect())
    }
}

#[cfg(test)]
mod tests;
