//! How far the emulation is behind the clock.

use roce_stack::Duration;

/// A frame that is later than this distorts what is measured.
pub const LATE: Duration = Duration::from_millis(1);

/// The emulation is saturated in a window of this length if it had nothing to do for less than the
/// [`IDLE`]th part of it. Frames then wait in the interfaces of their hosts, where no event is late.
const WINDOW: Duration = Duration::from_millis(100);
const IDLE: u32 = 20;

/// How late events were: the time at which each was handled, less the time at which it was due.
#[derive(Clone, Debug, Default)]
pub struct Lag {
    /// Of the present window: its length up to now, and the part in which there was nothing to do.
    window: (Duration, Duration),
    /// The length of all windows, and of those in which the emulation was saturated.
    windows: (Duration, Duration),
    /// Events that were late by less than 2^i us, and not less than half of it.
    by_log2_us: [u64; 32],
    events: u64,
    late: u64,
    longest: Duration,
}

impl Lag {
    pub(crate) fn note(&mut self, lag: Duration) {
        let us = u32::try_from(lag.as_micros()).unwrap_or(u32::MAX);
        let class = (u32::BITS - us.leading_zeros()).min(31);
        self.by_log2_us[class as usize] += 1;
        self.events += 1;
        self.late += u64::from(lag > LATE);
        self.longest = self.longest.max(lag);
    }

    /// Notes a turn that took `time`, and waited for `idle` of it.
    pub(crate) fn note_turn(&mut self, time: Duration, idle: Duration) {
        self.window.0 += time;
        self.window.1 += idle;
        let (length, idle) = self.window;
        if length >= WINDOW {
            self.windows.0 += length;
            if idle < length / IDLE {
                self.windows.1 += length;
            }
            self.window = Default::default();
        }
    }

    /// The time in which the emulation was saturated: hosts sent more frames than it could carry.
    pub fn saturated(&self) -> Duration {
        self.windows.1
    }

    /// The time in all.
    pub fn time(&self) -> Duration {
        self.windows.0
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Number of events that were later than [`LATE`].
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The latest.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The lag that this fraction of all events did not exceed, from 0 to 1, to a power of two of
    /// microseconds.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let wanted = fraction * self.events as f64;
        let mut seen = 0;
        for (class, count) in self.by_log2_us.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return Duration::from_micros((1 << class) - u64::from(class == 0))
                    .min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests;
