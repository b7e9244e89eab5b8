//! The port's clock, which starts when the port is opened.

use std::time::Duration;

use roce_stack::Instant;

/// How often a driver that only spins looks for network events.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The number of calls of [`Clock::is_time_to_look`] for each reading of the clock.
const CALLS_PER_LOOK: u32 = 16;

#[derive(Debug)]
pub(super) struct Clock {
    start: std::time::Instant,
    looked: Instant,
    calls: u32,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
            looked: Instant::ZERO,
            calls: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Whether it is time to look for network events.
    pub(super) fn is_time_to_look(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(CALLS_PER_LOOK) {
            return false;
        }
        let now = self.now();
        let is_time = now.saturating_duration_since(self.looked) >= LOOK_EVERY;
        if is_time {
            self.looked = now;
        }
        is_time
    }
}
