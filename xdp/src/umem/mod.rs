//! The memory that frames lie in, shared with the kernel.
//!
//! A UMEM is one mapping of chunks of [`CHUNK_BYTES`]. It is cut into one [`Share`] for
//! each queue, which no other queue touches: so queues share the mapping and its
//! registration, and nothing that would need a lock. Who has each chunk of a share is
//! written in its [`Ledger`].

mod ledger;
mod share;

pub(crate) use ledger::stays_in_chunk;
pub use ledger::{ChunkCounts, ChunkFault, Ledger, Owner};
pub use share::Share;

use std::io;
use std::sync::Arc;

use crate::sys::memory::Mapping;

/// Length of a chunk in bytes. The kernel allows no more than a page.
pub const CHUNK_BYTES: usize = 4096;

/// Most bytes of a received frame in one chunk: the kernel keeps 256 in front.
pub const RX_PIECE_BYTES: usize = 3840;

/// What the kernel leaves room for around an IP packet: Ethernet, two VLAN tags and the
/// frame check sequence, in bytes.
pub(crate) const ROOM_FOR_HEADERS: usize = 14 + 2 * 4 + 4;

/// Memory for frames, before it is cut into shares.
#[derive(Debug)]
pub struct Umem {
    memory: Arc<Mapping>,
}

impl Umem {
    /// Room for `chunks` chunks: in huge pages if the system has some to give, else in
    /// ordinary ones.
    ///
    /// # Errors
    /// If the system has not so much memory.
    pub fn new(chunks: u32) -> io::Result<Self> {
        let memory = Mapping::new(chunks as usize * CHUNK_BYTES)?;
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// Whether huge pages were to be had.
    pub fn has_huge_pages(&self) -> bool {
        self.memory.is_huge()
    }

    /// Cuts the memory into shares of so many chunks each.
    ///
    /// # Errors
    /// If there are not so many.
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
