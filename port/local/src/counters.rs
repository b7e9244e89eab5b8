//! The counters of a ring, and how a sleeping receiver is woken up.
//!
//! The sender adds packets and then advances `tail`. The receiver reads `tail`, reads the packets,
//! and then advances `head`. Both are numbers of bytes since the ring began, and never wrap.
//!
//! A receiver that wants to sleep sets `asleep`, and then looks at `tail` again. A sender advances `tail`,
//! and then looks at `asleep`. Each does so in this order for all others to see, so at least one of the two
//! notices the other: no packet waits in the ring of a receiver that sleeps.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A value that shares its cache line with nothing else. Two lines, because processors fetch pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Alone<T>(T);

/// The counters, as they lie in shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    tail: Alone<AtomicU64>,
    head: Alone<AtomicU64>,
    asleep: Alone<AtomicU32>,
    closed: Alone<AtomicU32>,
}

impl Counters {
    /// The end of what the sender has added.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail.0.load(Ordering::Acquire)
    }

    /// The end of what the receiver has taken.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head.0.load(Ordering::Acquire)
    }

    /// Shows the receiver what was added up to `tail`. For the sender.
    #[inline]
    pub fn advance_tail(&self, tail: u64) {
        self.tail.0.store(tail, Ordering::Release);
    }

    /// Gives the sender the room up to `head`. For the receiver.
    #[inline]
    pub fn advance_head(&self, head: u64) {
        self.head.0.store(head, Ordering::Release);
    }

    /// Whether the receiver sleeps and has not been woken up for the packets before this call. The caller
    /// wakes it up. For the sender, after [`Counters::advance_tail`].
    #[inline]
    pub fn must_wake_receiver(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.0.load(Ordering::Relaxed) != 0 && self.asleep.0.swap(0, Ordering::AcqRel) != 0
    }

    /// Announces that the receiver is about to sleep. It may do so if this returns true: the ring has nothing
    /// behind `head`. For the receiver.
    pub fn fall_asleep(&self, head: u64) -> bool {
        self.asleep.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.tail.0.load(Ordering::Acquire) == head
    }

    /// Tells the sender that nobody will take packets any more. For the receiver.
    pub fn close(&self) {
        self.closed.0.store(1, Ordering::Release);
    }

    /// Whether the receiver takes no packets any more.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.0.load(Ordering::Acquire) != 0
    }
}
