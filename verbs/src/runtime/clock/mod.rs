//! The device's clock, which gives completions their timestamps.

mod counter;
mod ticker;
mod wall;

pub(crate) use wall::wall_clock_ns;

use nix::time::ClockId;
use roce_stack::Instant;
use std::io;
use ticker::Ticker;

/// Gives the stack the time: the host's monotonic clock, in nanoseconds.
///
/// Each call of the NIC needs the current time, even if it finds nothing to do, and reading the
/// system's clock takes longer than looking for a packet. If the processors have a counter that the
/// kernel itself uses as its clock source, a [`Ticker`] computes the time from that counter, and
/// reads the clock only now and then.
pub(crate) struct DeviceClock {
    ticker: Option<Ticker>,
}

impl DeviceClock {
    /// # Errors
    /// If the host has no monotonic clock.
    pub(crate) fn start() -> io::Result<Self> {
        ClockId::CLOCK_MONOTONIC.now()?;
        let ticker = counter::keeps_time().then(Ticker::default);
        Ok(Self { ticker })
    }

    /// The current time. It may be slightly wrong, and therefore less than an earlier result.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let ns = match &self.ticker {
            Some(ticker) => match ticker.at(counter::ticks()) {
                Some(ns) => ns,
                None => ticker.read_clock(counter::ticks, monotonic_ns),
            },
            None => monotonic_ns(),
        };
        Instant::from_nanos(ns)
    }

    /// `at` in nanoseconds of the host's monotonic clock.
    #[inline]
    pub(crate) fn host_ns(&self, at: Instant) -> u64 {
        at.as_nanos()
    }
}

/// The host's monotonic clock.
fn monotonic_ns() -> u64 {
    // The clock worked when the device was opened, so this does not fail, and the 0 is never
    // returned.
    ClockId::CLOCK_MONOTONIC.now().map_or(0, |now| {
        // The clock starts at boot or later, so neither value is negative.
        let (seconds, ns) = (now.tv_sec() as u64, now.tv_nsec() as u64);
        seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
    })
}

#[cfg(test)]
mod tests;
