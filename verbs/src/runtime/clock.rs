//! The device's clock, by which completions are stamped.

mod counter;
mod ticker;

use nix::time::ClockId;
use roce_stack::Instant;
use std::io;
use ticker::Ticker;

/// Counts nanoseconds for the stack: those of the machine's monotonic clock.
///
/// The NIC is told the time at each call, also at those that find nothing to do, and to ask
/// the system for it takes longer than to look for a packet. Where the processors have a counter
/// that the kernel itself keeps time by, a [`Ticker`] tells the time between two such questions.
pub(crate) struct DeviceClock {
    ticker: Option<Ticker>,
}

impl DeviceClock {
    /// # Errors
    /// If the machine has no such clock.
    pub(crate) fn start() -> io::Result<Self> {
        ClockId::CLOCK_MONOTONIC.now()?;
        let ticker = counter::keeps_time().then(Ticker::default);
        Ok(Self { ticker })
    }

    /// The time as the stack counts it. It can be a little off, and so before what was told last.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let ns = match &self.ticker {
            Some(ticker) => match ticker.at(counter::ticks()) {
                Some(ns) => ns,
                None => ticker.ask(counter::ticks, monotonic_ns),
            },
            None => monotonic_ns(),
        };
        Instant::from_nanos(ns)
    }

    /// That time by the machine's clock.
    #[inline]
    pub(crate) fn ns(&self, at: Instant) -> u64 {
        at.as_nanos()
    }
}

/// The machine's monotonic clock.
fn monotonic_ns() -> u64 {
    // It was there at the start.
    ClockId::CLOCK_MONOTONIC.now().map_or(0, |now| {
        // The clock starts with the machine, or later: neither is negative.
        let (seconds, ns) = (now.tv_sec() as u64, now.tv_nsec() as u64);
        seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
    })
}

#[cfg(test)]
mod tests;
