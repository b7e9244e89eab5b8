//! The time between two questions for it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// So many ticks after a question, the next is asked: at 1 GHz after a millisecond. What the
/// system's clock is corrected by meanwhile is below a microsecond.
const WINDOW: u64 = 1 << 20;

/// A question whose answer took longer, since the thread lost its processor, tells nothing of the
/// counter.
const PROMPT: u64 = 1 << 10;

/// A rate that was taken over so many ticks is as good as it has to be: two answers, each with
/// an error of at most [`PROMPT`], make one of 2^-15. The first one is taken over a window.
const PRECISE: u64 = 1 << 26;

/// A rate that differs by more than this part of it from the last is none: the machine slept, or
/// was moved to another.
const STEADY: u64 = 64;

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
        (is_whole && since < WINDOW && rate != 0).then(|| ns + ((since * rate) >> 32))
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
            self.tell(Answer { ticks, ns }, rate);
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

    /// Has [`Ticker::at`] go on from here. The lock is held.
    fn tell(&self, answer: Answer, rate: u64) {
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
