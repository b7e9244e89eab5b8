//! The device's clock, by which completions are stamped.

use crate::context::Context;
use nix::time::ClockId;
use roce_stack::Instant;
use std::io;
use std::time::{Duration, Instant as Clock};

/// Counts nanoseconds for the stack, from the start of a context on, and knows what the
/// machine's monotonic clock was then.
pub(crate) struct DeviceClock {
    origin: Clock,
    origin_ns: u64,
}

impl DeviceClock {
    /// # Errors
    /// If the machine has no such clock.
    pub(crate) fn start() -> io::Result<Self> {
        let origin = Clock::now();
        let monotonic = Duration::from(ClockId::CLOCK_MONOTONIC.now()?);
        Ok(Self {
            origin,
            origin_ns: nanos(monotonic),
        })
    }

    /// The time as the stack counts it.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(nanos(self.origin.elapsed()))
    }

    /// That time by the machine's clock.
    pub(crate) fn ns(&self, at: Instant) -> u64 {
        self.origin_ns.saturating_add(at.as_nanos())
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
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
