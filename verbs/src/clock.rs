//! The device's clock, by which completions are stamped.

use crate::context::Context;
use nix::time::ClockId;
use roce_stack::Instant;
use std::io;

/// Counts nanoseconds for the stack: those of the machine's monotonic clock.
pub(crate) struct DeviceClock(());

impl DeviceClock {
    /// # Errors
    /// If the machine has no such clock.
    pub(crate) fn start() -> io::Result<Self> {
        ClockId::CLOCK_MONOTONIC.now()?;
        Ok(Self(()))
    }

    /// The time as the stack counts it.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        // It was there at the start.
        let now = ClockId::CLOCK_MONOTONIC.now();
        now.map_or(Instant::ZERO, |now| {
            // The clock starts with the machine, or later: neither is negative.
            let (seconds, ns) = (now.tv_sec() as u64, now.tv_nsec() as u64);
            Instant::from_nanos(seconds.wrapping_mul(1_000_000_000).wrapping_add(ns))
        })
    }

    /// That time by the machine's clock.
    #[inline]
    pub(crate) fn ns(&self, at: Instant) -> u64 {
        at.as_nanos()
    }
}

impl Context {
    /// The device's clock: nanoseconds of the machine's monotonic clock
    /// (`CLOCK_MONOTONIC`), in every context of every device. Completions tell it, too:
    /// [`CompletionQueue::poll_timed`](crate::CompletionQueue::poll_timed).
    pub fn clock_ns(&self) -> u64 {
        let clock = &self.inner.shared.clock;
        clock.ns(clock.now())
    }
}
