//! The time between two readings of the system's clock.

use parking_lot::Mutex;
use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The number of ticks after which the clock is read again: 0.1 ms at 2.6 GHz. NTP slews the host's
/// clock by at most 500 ns in a millisecond, or, after a large error, by at most a tenth of the
/// elapsed time.
const WINDOW: u64 = 1 << 18;

/// The maximum duration of a reading in ticks. A longer reading, of a thread that was preempted, is
/// too imprecise to use.
const MAX_READING_TICKS: u64 = 1 << 10;

/// The number of ticks over which a measured rate is precise enough: two readings, each with an
/// error of at most [`MAX_READING_TICKS`] / 2, give a relative error of 2^-16. The first rate is
/// measured over one window.
const PRECISE_TICKS: u64 = 1 << 26;

/// The inverse of the largest relative change between two rates. If a rate changes more, the
/// machine was suspended or migrated, and the rate is invalid.
const MAX_RATE_CHANGE: u64 = 64;

/// The tolerated difference between a reading and the predicted time is this value plus the time
/// since the last reading divided by 2^14. A larger difference means that the clock's rate is being
/// adjusted.
const TOLERANCE_NS: u64 = 1_000;

/// The possible rates of a counter, in nanoseconds per 2^32 ticks: 64 MHz to 16 GHz.
const POSSIBLE_RATES: std::ops::Range<u64> = 1 << 28..1 << 36;

/// Extrapolates the time by a counter of the processor.
///
/// One thread at a time reads the clock, once in each window. Between readings, threads extrapolate
/// the time at the measured rate of the counter, without a lock.
#[derive(Debug, Default)]
pub(super) struct Ticker {
    /// Odd while the next three fields change (a sequence lock).
    version: AtomicU64,
    /// The counter's and the clock's values at the last reading.
    ticks: AtomicU64,
    ns: AtomicU64,
    /// Nanoseconds per 2^32 ticks; 0 if the rate is unknown.
    rate: AtomicU64,
    /// The reading at which the measurement of the rate began.
    anchor: Mutex<Option<Reading>>,
}

/// A reading: the clock's value at one value of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    ticks: u64,
    ns: u64,
}

impl Ticker {
    /// The time when the counter is at `ticks`; `None` if the clock must be read.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let since = ticks.wrapping_sub(self.ticks.load(Ordering::Relaxed));
        let ns = self.ns.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        if !is_whole || since >= WINDOW || rate == 0 {
            cold_path();
            return None;
        }
        Some(ns + ((since * rate) >> 32))
    }

    /// Reads the clock, returns its time, and extrapolates from it from now on.
    #[cold]
    pub(super) fn read_clock(&self, counter: impl Fn() -> u64, clock: impl FnOnce() -> u64) -> u64 {
        // Another thread may be reading the clock already.
        let Some(mut anchor) = self.anchor.try_lock() else {
            return clock();
        };
        let before = counter();
        let ns = clock();
        let took = counter().wrapping_sub(before);
        if took < MAX_READING_TICKS {
            let ticks = before + took / 2;
            let rate = self.rate_at(&mut anchor, Reading { ticks, ns });
            self.publish(Reading { ticks, ns }, rate);
        }
        ns
    }

    /// The rate after one more reading; 0 if it is unknown.
    fn rate_at(&self, anchor: &mut Option<Reading>, now: Reading) -> u64 {
        let last = self.rate.load(Ordering::Relaxed);
        let Some(then) = *anchor else {
            *anchor = Some(now);
            return 0;
        };
        let ticks = now.ticks.wrapping_sub(then.ticks);
        if ticks < if last == 0 { WINDOW } else { PRECISE_TICKS } {
            if last != 0 && !self.agrees(now, last) {
                *anchor = Some(now);
                return 0;
            }
            return last;
        }
        let ns = u128::from(now.ns.saturating_sub(then.ns));
        let rate = (ns << 32) / u128::from(ticks);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let is_steady = last == 0 || rate.abs_diff(last) <= last / MAX_RATE_CHANGE;
        if ticks >= PRECISE_TICKS || !is_steady {
            *anchor = Some(now);
        }
        if is_steady && POSSIBLE_RATES.contains(&rate) {
            rate
        } else {
            0
        }
    }

    /// Whether the reading agrees with the extrapolated time, within the tolerance. The caller
    /// holds the lock.
    fn agrees(&self, reading: Reading, rate: u64) -> bool {
        let ticks = reading
            .ticks
            .wrapping_sub(self.ticks.load(Ordering::Relaxed));
        let since = (u128::from(ticks) * u128::from(rate)) >> 32;
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let time = self.ns.load(Ordering::Relaxed).saturating_add(since);
        time.abs_diff(reading.ns) <= TOLERANCE_NS + (since >> 14)
    }

    /// Makes [`Ticker::at`] extrapolate from this reading. The caller holds the lock.
    fn publish(&self, reading: Reading, rate: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.ticks.store(reading.ticks, Ordering::Relaxed);
        self.ns.store(reading.ns, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
