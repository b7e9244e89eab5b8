//! How far the emulation is behind the clock.

use roce_stack::Duration;

/// A frame that is later than this distorts what is measured.
pub const LATE: Duration = Duration::from_millis(1);

/// How late events were: the time at which each was handled, less the time at which it was due.
#[derive(Clone, Debug, Default)]
pub struct Lag {
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
