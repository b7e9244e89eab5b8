//! The flight recorder: the last events of each QP, for the report of its failure.
//!
//! A QP that is recorded has a ring of [`CAPACITY`] entries of 16 bytes, allocated with the QP. An
//! entry is the time and one word ([`Entry`]), so recording an event is two stores. The word is
//! decoded into a [`QpEvent`] when somebody reads the ring.
//!
//! A packet is recorded when the QP gets it, as accepted. If the code that handles it decides
//! otherwise, it corrects the verdict of the newest received packet. So the usual packet is recorded
//! once, and without a branch that depends on its verdict.

mod entry;
mod event;

pub(crate) use entry::Entry;
pub use event::{QpEvent, Recorded, Verdict};

use crate::time::Instant;

/// The number of events that are kept of each QP. A power of two.
pub(crate) const CAPACITY: usize = 32;

/// The time and the word of an entry.
const WORDS: u32 = 2;

/// The words of the ring.
const LEN: usize = CAPACITY * WORDS as usize;

/// The last events of a QP.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The number of words written so far, which wraps around; the next place in the ring.
    next: u32,
    /// Pairs of a time, in nanoseconds, and an [`Entry`].
    ring: [u64; LEN],
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            ring: [0; LEN],
        }
    }

    /// Records an event, in the place of the oldest one.
    #[inline(always)]
    pub(crate) fn record(&mut self, now: Instant, entry: Entry) {
        let at = place(self.next);
        self.ring[at] = now.as_nanos();
        self.ring[at | 1] = entry.word();
        self.next = self.next.wrapping_add(WORDS);
    }

    /// The entry that is `age` events older than the newest one.
    fn entry(&mut self, age: u32) -> &mut u64 {
        let at = place(self.next.wrapping_sub(WORDS * (age + 1)));
        &mut self.ring[at | 1]
    }

    /// Corrects the verdict of the newest received packet.
    #[cold]
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        for age in 0..CAPACITY as u32 {
            let word = self.entry(age);
            let entry = Entry::from_word(*word);
            if entry.is_received() {
                *word = entry.with_verdict(verdict).word();
                return;
            }
        }
    }

    /// Removes the newest event. The oldest one, which it has replaced, is lost.
    #[inline]
    pub(crate) fn remove_newest(&mut self) {
        *self.entry(0) = Entry::NONE.word();
        self.next = self.next.wrapping_sub(WORDS);
    }

    /// Changes the newest event.
    pub(crate) fn change_newest(&mut self, change: impl FnOnce(Entry) -> Entry) {
        let word = self.entry(0);
        *word = change(Entry::from_word(*word)).word();
    }

    /// Makes one event of the newest two, if they are packets in the middle of the same message.
    /// Otherwise, one long message would fill the ring.
    #[inline]
    pub(crate) fn merge_middle(&mut self) {
        let newest = place(self.next.wrapping_sub(WORDS));
        let before = place(self.next.wrapping_sub(2 * WORDS));
        let [first, second] = [before, newest].map(|at| Entry::from_word(self.ring[at | 1]));
        if let Some(run) = first.merged_with(second) {
            self.ring[before] = self.ring[newest];
            self.ring[before | 1] = run.word();
            self.remove_newest();
        }
    }

    /// Records one of several requests of a kind. Those that follow each other are one event.
    #[inline]
    pub(crate) fn record_another(&mut self, now: Instant, request: Entry) {
        let newest = Entry::from_word(*self.entry(0));
        let entry = match newest.with_another(request) {
            Some(more) => {
                self.next = self.next.wrapping_sub(WORDS);
                more
            }
            None => request,
        };
        self.record(now, entry);
    }

    /// The events, oldest first.
    pub(crate) fn events(&self) -> Vec<Recorded> {
        let oldest = (0..CAPACITY as u32).map(|age| place(self.next.wrapping_add(WORDS * age)));
        let decoded = oldest.filter_map(|at| {
            let event = Entry::from_word(self.ring[at | 1]).decode()?;
            Some(Recorded {
                at: Instant::from_nanos(self.ring[at]),
                event,
            })
        });
        decoded.collect()
    }
}

/// The place of a word in the ring.
#[inline(always)]
fn place(word: u32) -> usize {
    word as usize & (LEN - WORDS as usize)
}
