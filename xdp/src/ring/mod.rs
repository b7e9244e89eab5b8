//! The rings shared with the kernel: single producer, single consumer, in memory that both sides
//! write.
//!
//! Each ring has two counters that only increase (modulo 2³²). The producer writes entries and then
//! advances its counter (`Release`). The consumer reads that counter (`Acquire`), reads the
//! entries, and then advances its own counter (`Release`). So an entry is visible only when it is
//! complete, and a slot is reused only when the other side no longer reads it.
//!
//! The other side is not trusted. If the counters differ by more than the ring's capacity, the
//! functions return [`Corrupt`]. An entry is read exactly once, and the caller checks it.
//!
//! The code is generic over the memory ([`RingMemory`]), so that it also runs without a kernel:
//! over [`HeapRing`], and under a model checker.

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

/// The other side's counter is impossible: it implies more entries than the ring's capacity, or a
/// negative number. Nothing in such a ring can be trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Corrupt {
    /// The producer's counter.
    pub producer: u32,
    /// The consumer's counter.
    pub consumer: u32,
    /// Number of entries in the ring.
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

impl std::fmt::Debug for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Corrupt {}

/// The number of entries between the two counters, if it is at most the ring's capacity.
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
