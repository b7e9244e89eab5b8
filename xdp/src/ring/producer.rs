//! The side of a ring that writes entries.

use std::hint::cold_path;
use std::sync::atomic::Ordering;

use super::memory::{RingMemory, Word};
use super::{Corrupt, filled};

/// Writes entries into a ring. Entries are seen by the other side after
/// [`Producer::submit`].
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    /// Entries written so far, those not yet submitted included.
    next: u32,
    /// Entries submitted so far.
    submitted: u32,
    /// Where the other side was when we looked last.
    consumer: u32,
}

impl<M: RingMemory> Producer<M> {
    /// The producer's side of a ring that only the other side uses besides.
    ///
    /// # Errors
    /// If the counters in it are impossible.
    pub fn new(memory: M) -> Result<Self, Corrupt> {
        // Our own counter: nobody else writes it.
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

    /// How many entries the ring has.
    pub fn capacity(&self) -> u32 {
        self.memory.capacity()
    }

    /// How many entries can be written now. Looks at the other side's counter only if
    /// there is no room for `wanted` without.
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
    /// See [`Producer::room`]; `Ok(false)` if there is none.
    pub fn push(&mut self, entry: M::Entry) -> Result<bool, Corrupt> {
        if self.room(1)? == 0 {
            cold_path();
            return Ok(false);
        }
        self.memory.write(self.next, entry);
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Shows the other side what was written. Returns how many entries that were.
    pub fn submit(&mut self) -> u32 {
        let new = self.next.wrapping_sub(self.submitted);
        if new > 0 {
            // Release: whoever sees this counter sees the entries before it.
            self.memory.producer().store(self.next, Ordering::Release);
            self.submitted = self.next;
        }
        new
    }

    /// How many submitted entries the other side has not taken yet.
    ///
    /// # Errors
    /// If its counter is impossible.
    pub fn untaken(&mut self) -> Result<u32, Corrupt> {
        self.refresh()?;
        Ok(self.submitted.wrapping_sub(self.consumer))
    }

    /// Whether the kernel wants to be woken to look at the ring.
    ///
    /// The kernel sets the flag and then looks a last time; we submit and then look at
    /// the flag. Without a full fence between, both could miss each other.
    pub fn needs_wakeup(&self) -> bool {
        M::Word::full_fence();
        self.has_asked_for_wakeup()
    }

    /// The same for who has submitted nothing since [`Producer::needs_wakeup`] said no: a
    /// flag that was set since then is seen at the next look, if not at this one.
    pub fn has_asked_for_wakeup(&self) -> bool {
        self.memory.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn refresh(&mut self) -> Result<u32, Corrupt> {
        // Acquire: the other side has read an entry before we write its slot anew.
        let consumer = self.memory.consumer().load(Ordering::Acquire);
        // What was submitted may have been taken since we looked last, and no more.
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
