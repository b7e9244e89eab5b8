//! The time between two questions for it.

use parking_lot::Mutex;
use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// So many ticks after a question, the next is asked: at 2.6 GHz after 0.1 ms. Who keeps the
/// machine's clock corrects it by 500 ns in a millisecond at most, by a tenth if he is in a hurry.
const WINDOW: u64 = 1 << 18;

/// A question whose answer took longer, since the thread lost its processor, tells nothing of the
/// counter.
const PROMPT: u64 = 1 << 10;

/// A rate that was taken over so many ticks is as good as it has to be: two answers, each with
/// an error of at most [`PROMPT`] / 2, make one of 2^-16. The first one is taken over a window.
const PRECISE: u64 = 1 << 26;

/// A rate that differs by more than this part of it from the last is none: the machine slept, or
/// was moved to another.
const STEADY: u64 = 64;

/// An answer may differ by so many nanoseconds, and by a part of 2^14 of the time since the last,
/// from what would have been told. If it does by more, the clock is being set to another rate.
const TOLERATED_NS: u64 = 1_000;

/// Rates that a counter can have, in nanoseconds for 2^32 ticks: those of 64 MHz to 16 GHz.
const POSSIBLE: std::ops::Range<u64> = 1 << 28..1 << 36;

/// Tells the time by a counter of the processor.
///
/// The time is asked for once in a while, and taken on from there by the rate at which the counter
/// was found to tick. Threads read it without a lock; one of them at a time asks.
#[derive(Debug, Default)]
pub(super) struct Ticker {
    /// Odd while the three others change.
    version: AtomicU64,
    /// What the counter and the clock showed.
    ticks: AtomicU64,
    ns: AtomicU64,
    /// Nanoseconds for 2^32 ticks; 0 if that is not known.
    rate: AtomicU64,
    /// Since when the rate is taken.
    anchor: Mutex<Option<Answer>>,
}

/// What the clock showed when the counter showed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    ticks: u64,
    ns: u64,
}

impl Ticker {
    /// The time when the counter shows `ticks`; nothing if it has to be asked for.
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

    /// Asks for the time, which is returned and told from now on.
    #[cold]
    pub(super) fn ask(&self, counter: impl Fn() -> u64, clock: impl FnOnce() -> u64) -> u64 {
        // Another thread may have asked while this one was on its way here.
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

    /// The rate, now that there is one answer more; 0 if it is not known.
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

    /// Whether the answer is what would have been told, as far as that can be expected. The lock
    /// is held.
    fn agrees(&self, answer: Answer, rate: u64) -> bool {
        let ticks = answer
            .ticks
            .wrapping_sub(self.ticks.load(Ordering::Relaxed));
        let since = (u128::from(ticks) * u128::from(rate)) >> 32;
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let told = self.ns.load(Ordering::Relaxed).saturating_add(since);
        told.abs_diff(answer.ns) <= TOLERATED_NS + (since >> 14)
    }

    /// Has [`Ticker::at`] go on from here. The lock is held.
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
