//! Completion queues.

use crate::ids::CqId;
use crate::queue::EntryGuard;
use crate::time::Instant;
use crate::wr::Completion;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
use crossbeam_queue::ArrayQueue;
use roce_wire::Qpn;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Selects the completion that raises the next event (IBTA 1.7, 11.4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Notify {
    /// No completion.
    Never = 0,
    /// The next solicited or failed completion.
    Solicited = 1,
    /// The next completion.
    Next = 2,
}

// rule: 11.4.2.1-shared
/// A bounded queue of completions, filled by the NIC and polled by any thread.
///
/// A completion that finds the queue full is an overrun: nothing is overwritten, the CQ is marked
/// as failed for good, and the QP goes to the error state (IBTA 1.7, 10.10.2 and 11.6.3.1).
#[derive(Debug)]
pub struct CompletionQueue {
    id: CqId,
    /// The write lock is held while a ring of another size replaces it, and while the completions
    /// of one QP are removed.
    ring: RwLock<ArrayQueue<Entry>>,
    /// An upper bound of the number of completions in the ring. If it is 0, a poll needs no lock.
    waiting: AtomicUsize,
    overrun: AtomicBool,
    notify: AtomicU8,
    /// Completions since the last event, including the one that raised it; 0 before the first
    /// event.
    since_event: AtomicU32,
}

#[derive(Debug)]
struct Entry {
    completion: Completion,
    /// When the completion was generated, by the clock of the code that drives the NIC.
    at: Instant,
    /// Keeps the request's entry in its work queue occupied until this completion is polled.
    _entry: Option<EntryGuard>,
}

/// The CQ overran: completions were lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CqOverrun {
    /// The capacity of the CQ.
    pub capacity: usize,
}

impl core::fmt::Display for CqOverrun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "the completion queue of {} entries overran: make it as large as all the send and \
             receive queues that use it together, or poll more often",
            self.capacity
        )
    }
}

impl core::fmt::Debug for CqOverrun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CqOverrun {}

/// The CQ holds more completions than would fit in the new size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CqResizeError {
    /// The new capacity.
    pub capacity: usize,
    /// The number of completions that wait to be polled.
    pub held: usize,
}

impl core::fmt::Display for CqResizeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { capacity, held } = self;
        write!(
            f,
            "{held} completions wait and don't fit in {capacity} entries: poll some first, or \
             make it at least {held}"
        )
    }
}

impl core::fmt::Debug for CqResizeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CqResizeError {}

impl CompletionQueue {
    /// A queue for `capacity` completions, at least 1.
    pub fn new(id: CqId, capacity: usize) -> Self {
        Self {
            id,
            ring: RwLock::new(ArrayQueue::new(capacity.max(1))),
            waiting: AtomicUsize::new(0),
            overrun: AtomicBool::new(false),
            notify: AtomicU8::new(Notify::Never as u8),
            since_event: AtomicU32::new(0),
        }
    }

    /// The ID of the CQ.
    pub fn id(&self) -> CqId {
        self.id
    }

    /// The number of completions that fit.
    pub fn capacity(&self) -> usize {
        self.ring().capacity()
    }

    /// Takes the oldest completion.
    ///
    /// # Errors
    /// [`CqOverrun`] if the queue overran and all remaining completions have been taken.
    pub fn poll(&self) -> Result<Option<Completion>, CqOverrun> {
        let taken = self.poll_stamped()?;
        Ok(taken.map(|(completion, _)| completion))
    }

    /// Takes the oldest completion, with the time of the call to the NIC that generated it.
    ///
    /// # Errors
    /// As for [`CompletionQueue::poll`].
    #[inline(always)]
    pub fn poll_stamped(&self) -> Result<Option<(Completion, Instant)>, CqOverrun> {
        // Most polls end here.
        let is_empty = self.waiting.load(Ordering::Acquire) == 0;
        if is_empty && !self.overrun.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.take_stamped()
    }

    #[inline(never)]
    fn take_stamped(&self) -> Result<Option<(Completion, Instant)>, CqOverrun> {
        match self.take() {
            Some(entry) => Ok(Some((entry.completion, entry.at))),
            None if self.overrun.load(Ordering::Acquire) => Err(CqOverrun {
                capacity: self.capacity(),
            }),
            None => Ok(None),
        }
    }

    fn take(&self) -> Option<Entry> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        // The lock is released at the end of this statement.
        // rule: 11.4.2.1-fifo
        let entry = self.ring().pop()?;
        self.waiting.fetch_sub(1, Ordering::Release);
        Some(entry)
    }

    /// Whether no completion waits to be polled.
    pub fn is_empty(&self) -> bool {
        self.ring().is_empty()
    }

    /// Changes the capacity, to at least 1. Completions in the queue stay, in order, and other
    /// threads may poll meanwhile (IBTA 1.7, 11.2.8.3).
    ///
    /// # Errors
    /// [`CqResizeError`] if the queue holds more completions than would fit; the queue is
    /// unchanged.
    // rule: 11.2.6-cq-resize
    pub fn resize(&self, capacity: usize) -> Result<(), CqResizeError> {
        let capacity = capacity.max(1);
        let other = ArrayQueue::new(capacity);
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        let held = ring.len();
        if held > capacity {
            return Err(CqResizeError { capacity, held });
        }
        while let Some(completion) = ring.pop() {
            let pushed = other.push(completion);
            debug_assert!(pushed.is_ok(), "as large as what it holds");
        }
        *ring = other;
        Ok(())
    }

    /// Drops the completions of one QP; the rest stays, in order.
    pub(crate) fn forget(&self, qpn: Qpn) {
        if self.is_empty() {
            return;
        }
        let ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ring.len() {
            let kept = ring.pop().filter(|entry| entry.completion.qpn != qpn);
            if kept.is_none() {
                self.waiting.fetch_sub(1, Ordering::Release);
            }
            let pushed = kept.map(|entry| ring.push(entry));
            debug_assert!(!matches!(pushed, Some(Err(_))), "one was taken");
        }
    }

    /// Makes the queue overrun, although there is room. Returns whether it had not overrun before.
    pub(crate) fn overrun(&self) -> bool {
        !self.overrun.swap(true, Ordering::AcqRel)
    }

    fn ring(&self) -> RwLockReadGuard<'_, ArrayQueue<Entry>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arms the CQ: requests one event at the next completion of this kind. [`Notify::Next`] takes
    /// precedence over [`Notify::Solicited`]. As in verbs, completions that are already in the
    /// queue raise no event: poll once more after arming.
    // rule: 10.8.7-notify-after
    pub fn request_notify(&self, notify: Notify) {
        // rule: 10.8.7-next-outweighs
        self.notify.fetch_max(notify as u8, Ordering::AcqRel);
        // See `push`.
        fence(Ordering::SeqCst);
    }

    /// Whether completions wait although the CQ is armed for the next completion. If so, this
    /// disarms the CQ, and the caller must raise the event. A program calls this before it sleeps:
    /// completions that were in the queue when the CQ was armed raise no event.
    pub fn take_missed_event(&self) -> bool {
        let (next, never) = (Notify::Next as u8, Notify::Never as u8);
        // A completion that arrives at the same time may raise an event of its own.
        !self.is_empty()
            && self
                .notify
                .compare_exchange(next, never, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// The number of completions since the last event, including the one that raised it; 0 if there
    /// was no event. For event moderation.
    pub fn completions_since_event(&self) -> u32 {
        self.since_event.load(Ordering::Relaxed)
    }

    /// Adds a completion.
    pub(crate) fn push(
        &self,
        completion: Completion,
        at: Instant,
        solicited: bool,
        entry: Option<EntryGuard>,
    ) -> Pushed {
        // rule: 10.8.7-solicited
        let wakes = solicited || completion.status != crate::WcStatus::Success;
        // Incremented before the push, so that a reader never counts fewer completions than the
        // ring holds.
        self.waiting.fetch_add(1, Ordering::Release);
        // rule: 10.10.2-cq-overrun
        let pushed = self.ring().push(Entry {
            completion,
            at,
            _entry: entry,
        });
        if pushed.is_err() {
            self.waiting.fetch_sub(1, Ordering::Release);
            return Pushed::Overrun {
                first: self.overrun(),
            };
        }
        let least = if wakes {
            Notify::Solicited
        } else {
            Notify::Next
        } as u8;
        // Either this load sees the request, or the poll after the request sees the completion.
        // Without fences, a processor may perform each side's read before its write is visible, and
        // nothing would wake up the program.
        fence(Ordering::SeqCst);
        if self.notify.load(Ordering::Acquire) >= least {
            // rule: 10.8.7-notify-once
            self.notify.store(Notify::Never as u8, Ordering::Release);
            self.since_event.store(1, Ordering::Relaxed);
            return Pushed::Notify;
        }
        // If no event was ever requested, this writes no shared memory. Only the NIC writes the
        // counter.
        let since = self.completions_since_event();
        if since != 0 {
            self.since_event
                .store(since.saturating_add(1), Ordering::Relaxed);
        }
        Pushed::Quiet
    }
}

/// The result of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is in the queue.
    Quiet,
    /// It is in the queue, and an event was requested.
    Notify,
    /// The queue was full; `first` if this is its first overrun.
    Overrun { first: bool },
}

#[cfg(test)]
mod tests;
