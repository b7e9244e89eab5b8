//! The rings between us and the kernel: single producer, single consumer, over
//! memory that both sides write.
//!
//! Each ring has two counters that only ever grow (modulo 2³²). The side that
//! produces writes entries and then moves the producer's counter (`Release`); the
//! side that consumes reads that counter (`Acquire`), then the entries, then moves
//! its own. An entry that is seen is thus seen whole, and a slot that is written again is
//! no longer read by the other side.
//!
//! What the other side says is not believed: counters that are further apart than the
//! ring is long give [`Corrupt`], whatever they are, and an entry is read exactly
//! once and then checked by whoever asked for it.
//!
//! The code is generic over the memory ([`RingMemory`]), so that it runs without a
//! kernel, too: over [`HeapRing`], and under a model checker.

mod consumer;
mod entry;
mod heap;
mod memory;
mod producer;

pub use consumer::Consumer;
pub use entry::{Descriptor, Entry};
pub use heap::HeapRing;
pub use memory::{RingMemory, Word};
pub use producer::Producer;

/// The other side's counter is impossible: more entries are said to be in the ring than it
/// has room for, or fewer than none. Nothing in such a ring can be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The counter of the side that produces.
    pub producer: u32,
    /// The counter of the side that consumes.
    pub consumer: u32,
    /// Entries in the ring.
    pub capacity: u32,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a ring of {} entries whose producer is at {} and whose consumer is at {}",
            self.capacity, self.producer, self.consumer
        )
    }
}

impl std::error::Error for Corrupt {}

/// How many entries are between both counters, if that many fit.
fn filled(producer: u32, consumer: u32, capacity: u32) -> Result<u32, Corrupt> {
    let filled = producer.wrapping_sub(consumer);
    if filled > capacity {
        std::hint::cold_path();
        return Err(Corrupt {
            producer,
            consumer,
            capacity,
        });
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
