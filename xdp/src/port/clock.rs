//! The port's clock, which starts when the port is opened.

use std::time::Duration;

use roce_stack::Instant;

/// The interval of polls for network events, for a caller that polls `receive` and never waits.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The number of calls of [`Clock::network_poll_is_due`] for each reading of the clock.
const CALLS_PER_READING: u32 = 16;

#[derive(Debug)]
pub(super) struct Clock {
    start: std::time::Instant,
    last_poll: Instant,
    calls: u32,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
            last_poll: Instant::ZERO,
            calls: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Whether a poll for network events is due. If so, records the time.
    pub(super) fn network_poll_is_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(CALLS_PER_READING) {
            return false;
        }
        let now = self.now();
        let is_due = now.saturating_duration_since(self.last_poll) >= POLL_INTERVAL;
        if is_due {
            self.last_poll = now;
        }
        is_due
    }
}
