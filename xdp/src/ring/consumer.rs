//! The side of a ring that reads entries.

use std::sync::atomic::Ordering;

use super::memory::{RingMemory, Word};
use super::{Corrupt, filled};

/// Reads entries from a ring. [`Consumer::release`] returns their slots.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    /// Entries read so far, including those not yet released.
    next: u32,
    /// Entries released so far.
    released: u32,
    /// The other side's counter when it was last read.
    producer: u32,
}

impl<M: RingMemory> Consumer<M> {
    /// The consumer's end of a ring. Nothing but this value and the other side may use the ring.
    ///
    /// # Errors
    /// If the ring's counters are impossible.
    pub fn new(memory: M) -> Result<Self, Corrupt> {
        // Only this side writes this counter, so no ordering is needed.
        let next = memory.consumer().load(Ordering::Relaxed);
        let mut new = Self {
            producer: next,
            released: next,
            next,
            memory,
        };
        new.refresh()?;
        Ok(new)
    }

    /// Takes the next entry, if there is one. Reads the other side's counter only when all known
    /// entries have been read.
    ///
    /// # Errors
    /// If that counter is impossible.
    pub fn pop(&mut self) -> Result<Option<M::Entry>, Corrupt> {
        if self.next == self.producer {
            self.refresh()?;
        }
        if self.next == self.producer {
            return Ok(None);
        }
        let entry = self.memory.read(self.next);
        self.next = self.next.wrapping_add(1);
        Ok(Some(entry))
    }

    /// Returns the slots of all entries read so far to the other side.
    pub fn release(&mut self) {
        if self.released != self.next {
            // Release: the entries are read before the other side overwrites their slots.
            self.memory.consumer().store(self.next, Ordering::Release);
            self.released = self.next;
        }
    }

    /// Whether the kernel requests a wake-up; see
    /// [`Producer::needs_wakeup`](super::Producer::needs_wakeup).
    pub fn needs_wakeup(&self) -> bool {
        M::Word::full_fence();
        self.memory.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn refresh(&mut self) -> Result<(), Corrupt> {
        // Acquire: the entries before this counter are visible.
        let producer = self.memory.producer().load(Ordering::Acquire);
        // The producer may not reuse slots that are not released, so it is at most one ring ahead
        // of `released`.
        filled(producer, self.released, self.memory.capacity())?;
        // Entries that were visible may not disappear, so the producer is not behind `next`.
        filled(producer, self.next, self.memory.capacity())?;
        self.producer = producer;
        Ok(())
    }
}
