//! The side of a ring that reads entries.

use std::sync::atomic::Ordering;

use super::memory::{RingMemory, Word};
use super::{Corrupt, filled};

/// Reads entries from a ring. Their slots are given back by [`Consumer::release`].
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    /// Entries read so far, those not yet released included.
    next: u32,
    /// Entries released so far.
    released: u32,
    /// Where the other side was when we looked last.
    producer: u32,
}

impl<M: RingMemory> Consumer<M> {
    /// The consumer's side of a ring that only the other side uses besides.
    ///
    /// # Errors
    /// If the counters in it are impossible.
    pub fn new(memory: M) -> Result<Self, Corrupt> {
        // Our own counter: nobody else writes it.
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

    /// The next entry, if there is one. Looks at the other side's counter only if all
    /// that was known of is read.
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

    /// Gives the slots of all entries that were read back to the other side.
    pub fn release(&mut self) {
        if self.released != self.next {
            // Release: the entries were read before the other side writes their slots.
            self.memory.consumer().store(self.next, Ordering::Release);
            self.released = self.next;
        }
    }

    /// Whether the kernel wants to be woken; see
    /// [`Producer::needs_wakeup`](super::Producer::needs_wakeup).
    pub fn needs_wakeup(&self) -> bool {
        M::Word::full_fence();
        self.memory.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn refresh(&mut self) -> Result<(), Corrupt> {
        // Acquire: the entries before this counter are there.
        let producer = self.memory.producer().load(Ordering::Acquire);
        // Counted from what was released: slots that we keep can't be in use again.
        filled(producer, self.released, self.memory.capacity())?;
        // Nor does what was there go away.
        filled(producer, self.next, self.memory.capacity())?;
        self.producer = producer;
        Ok(())
    }
}
