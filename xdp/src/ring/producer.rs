//! The side of a ring that writes entries.

use std::hint::cold_path;
use std::sync::atomic::Ordering;

use super::memory::{RingMemory, Word};
use super::{Corrupt, filled};

/// Writes entries into a ring. [`Producer::submit`] makes them visible to the other side.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    /// Entries written so far, including those not yet submitted.
    next: u32,
    /// Entries submitted so far.
    submitted: u32,
    /// The other side's counter when it was last read.
    consumer: u32,
}

impl<M: RingMemory> Producer<M> {
    /// The producer's end of a ring. Nothing but this value and the other side may use the ring.
    ///
    /// # Errors
    /// If the ring's counters are impossible.
    pub fn new(memory: M) -> Result<Self, Corrupt> {
        // Only this side writes this counter, so no ordering is needed.
        let next = memory.producer().load(Ordering::Relaxed);
        let consumer = memory.consumer().load(Ordering::Acquire);
        filled(next, consumer, memory.capacity())?;
        Ok(Self {
            memory,
            next,
            submitted: next,
            consumer,
        })
    }

    /// The number of entries in the ring.
    pub fn capacity(&self) -> u32 {
        self.memory.capacity()
    }

    /// The number of entries that can be written now. Reads the other side's counter only if fewer
    /// than `wanted` entries are known to be free.
    ///
    /// # Errors
    /// If that counter is impossible.
    pub fn room(&mut self, wanted: u32) -> Result<u32, Corrupt> {
        let mut filled = self.next.wrapping_sub(self.consumer);
        if self.capacity() - filled < wanted {
            cold_path();
            filled = self.refresh()?;
        }
        Ok(self.capacity() - filled)
    }

    /// Writes one entry.
    ///
    /// # Errors
    /// See [`Producer::room`]. Returns `Ok(false)` if the ring is full.
    pub fn push(&mut self, entry: M::Entry) -> Result<bool, Corrupt> {
        if self.room(1)? == 0 {
            cold_path();
            return Ok(false);
        }
        self.memory.write(self.next, entry);
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Makes the written entries visible to the other side. Returns their number.
    pub fn submit(&mut self) -> u32 {
        let new = self.next.wrapping_sub(self.submitted);
        if new > 0 {
            // Release: a reader that sees this counter sees the entries before it.
            self.memory.producer().store(self.next, Ordering::Release);
            self.submitted = self.next;
        }
        new
    }

    /// The number of submitted entries that the other side has not consumed yet.
    ///
    /// # Errors
    /// If the other side's counter is impossible.
    pub fn untaken(&mut self) -> Result<u32, Corrupt> {
        self.refresh()?;
        Ok(self.submitted.wrapping_sub(self.consumer))
    }

    /// Whether the kernel requests a wake-up to check the ring.
    ///
    /// The kernel sets the flag and then checks the ring one last time. This side submits and then
    /// checks the flag. Without a full fence in between, each side could miss the other's write.
    pub fn needs_wakeup(&self) -> bool {
        M::Word::full_fence();
        self.has_asked_for_wakeup()
    }

    /// As [`Producer::needs_wakeup`], without the fence. It is for a caller that has submitted
    /// nothing since [`Producer::needs_wakeup`] returned false. If this check misses a flag that
    /// was set since then, the next check sees it.
    pub fn has_asked_for_wakeup(&self) -> bool {
        self.memory.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn refresh(&mut self) -> Result<u32, Corrupt> {
        // Acquire: the other side has read an entry before this side overwrites its slot.
        let consumer = self.memory.consumer().load(Ordering::Acquire);
        // Since the last read, the other side can have consumed at most the submitted entries.
        let outstanding = self.submitted.wrapping_sub(self.consumer);
        if consumer.wrapping_sub(self.consumer) > outstanding {
            cold_path();
            return Err(Corrupt {
                producer: self.submitted,
                consumer,
                capacity: self.capacity(),
            });
        }
        self.consumer = consumer;
        Ok(self.next.wrapping_sub(consumer))
    }
}
