//! The time between two readings of the system's clock.

use parking_lot::Mutex;
use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The number of ticks after which the clock is read again: 0.1 ms at 2.6 GHz. NTP slews the host's
/// clock by at most 500 ns in a millisecond, or, after a large error, by at most a tenth of the
/// elapsed time.
const WINDOW: u64 = 1 << 18;

/// A reading that took more ticks than this, because the thread lost its processor, says nothing
/// about the counter.
const PROMPT: u64 = 1 << 10;

/// A rate that was measured over this many ticks is precise enough: two readings, each with an
/// error of at most [`PROMPT`] / 2, give a relative error of 2^-16. The first rate is measured over
/// one window.
const PRECISE: u64 = 1 << 26;

/// A rate that differs from the last by more than one part in this number is invalid: the machine
/// was suspended, or migrated to another host.
const STEADY: u64 = 64;

/// A reading may differ from the predicted time by this many nanoseconds, plus the time since the
/// last reading divided by 2^14. A larger difference means that the clock's rate is being changed.
const TOLERATED_NS: u64 = 1_000;

/// The possible rates of a counter, in nanoseconds per 2^32 ticks: 64 MHz to 16 GHz.
const POSSIBLE: std::ops::Range<u64> = 1 << 28..1 << 36;

/// Gives the time by a counter of the processor.
///
/// One thread at a time reads the clock, once in a while. Between readings, the time is
/// extrapolated at the measured rate of the counter, which takes no lock.
#[derive(Debug, Default)]
pub(super) struct Ticker {
    /// Odd while the next three fields change (a sequence lock).
    version: AtomicU64,
    /// The counter's and the clock's values at the last reading.
    ticks: AtomicU64,
    ns: AtomicU64,
    /// Nanoseconds per 2^32 ticks; 0 if the rate is unknown.
    rate: AtomicU64,
    /// The reading since which the rate is measured.
    anchor: Mutex<Option<Answer>>,
}

/// A reading: the clock's value at one value of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
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
    pub(super) fn ask(&self, counter: impl Fn() -> u64, clock: impl FnOnce() -> u64) -> u64 {
        // Another thread may be reading the clock already.
        let Some(mut anchor) = self.anchor.try_lock() else {
            return clock();
        };
        let before = counter();
        let ns = clock();
        let took = counter().wrapping_sub(before);
        if took < PROMPT {
            let ticks = before + took / 2;
            let rate = self.rate_at(&mut anchor, Answer { ticks, ns });
            self.publish(Answer { ticks, ns }, rate);
        }
        ns
    }

    /// The rate after one more reading; 0 if it is unknown.
    fn rate_at(&self, anchor: &mut Option<Answer>, now: Answer) -> u64 {
        let last = self.rate.load(Ordering::Relaxed);
        let Some(then) = *anchor else {
            *anchor = Some(now);
            return 0;
        };
        let ticks = now.ticks.wrapping_sub(then.ticks);
        if ticks < if last == 0 { WINDOW } else { PRECISE } {
            if last != 0 && !self.agrees(now, last) {
                *anchor = Some(now);
                return 0;
            }
            return last;
        }
        let ns = u128::from(now.ns.saturating_sub(then.ns));
        let rate = (ns << 32) / u128::from(ticks);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let is_steady = last == 0 || rate.abs_diff(last) <= last / STEADY;
        if ticks >= PRECISE || !is_steady {
            *anchor = Some(now);
        }
        if is_steady && POSSIBLE.contains(&rate) {
            rate
        } else {
            0
        }
    }

    /// Whether the reading agrees with the extrapolated time, within the tolerance. The caller
    /// holds the lock.
    fn agrees(&self, answer: Answer, rate: u64) -> bool {
        let ticks = answer
            .ticks
            .wrapping_sub(self.ticks.load(Ordering::Relaxed));
        let since = (u128::from(ticks) * u128::from(rate)) >> 32;
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let told = self.ns.load(Ordering::Relaxed).saturating_add(since);
        told.abs_diff(answer.ns) <= TOLERATED_NS + (since >> 14)
    }

    /// Makes [`Ticker::at`] extrapolate from this reading. The caller holds the lock.
    fn publish(&self, answer: Answer, rate: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.ticks.store(answer.ticks, Ordering::Relaxed);
        self.ns.store(answer.ns, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
