//! Whether the background thread keeps polling after its work.
//!
//! The next packet often follows soon, and polling takes it without a wake-up. But the thread yields its
//! processor between two polls. If others compete for the processor, they then run for whole time
//! slices, and the kernel counts what the thread gave away as its own time: after a few yields, not even
//! waking up gets it a processor soon. A thread that sleeps instead preempts the others as it wakes up.

use std::time::{Duration, Instant};

/// The time that the thread keeps polling after its last work before it sleeps.
const LINGER: Duration = Duration::from_micros(50);

/// If a yield takes longer, others compete for the processor.
const LONG_YIELD: Duration = Duration::from_micros(100);

/// The thread then sleeps after its work without polling, for this many times as long as the yield
/// took. So long yields take at most 1 / `REST` of the time.
const REST: u32 = 32;

/// The thread's last work, and whether others compete for its processor.
#[derive(Debug, Default)]
pub(super) struct Linger {
    last_work: Option<Instant>,
    /// The end of the rest after the last long yield.
    rests_until: Option<Instant>,
}

impl Linger {
    /// Notes that the thread has worked.
    pub(super) fn note_work(&mut self, now: Instant) {
        let rests = self.rests_until.is_some_and(|until| now < until);
        self.last_work = (!rests).then_some(now);
    }

    /// Notes that the thread has nothing more to do soon.
    pub(super) fn end(&mut self) {
        self.last_work = None;
    }

    /// Whether the thread polls again.
    pub(super) fn polls_at(&self, now: Instant) -> bool {
        let lingers = |since| now.saturating_duration_since(since) <= LINGER;
        self.last_work.is_some_and(lingers)
    }

    /// Notes that the thread has yielded its processor from `began` until `back`.
    pub(super) fn note_yield(&mut self, began: Instant, back: Instant) {
        let took = back.saturating_duration_since(began);
        if took > LONG_YIELD {
            self.rests_until = Some(back + took * REST);
            self.last_work = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn polling_goes_on_for_a_while_after_work() {
        let (mut linger, now) = (Linger::default(), Instant::now());
        assert!(!linger.polls_at(now));
        linger.note_work(now);
        assert!(linger.polls_at(now + LINGER));
        assert!(!linger.polls_at(now + LINGER + US));
        linger.note_work(now);
        linger.end();
        assert!(!linger.polls_at(now));
    }

    #[test]
    fn polling_ends_while_others_compete_for_the_processor() {
        let (mut linger, now) = (Linger::default(), Instant::now());
        linger.note_work(now);
        linger.note_yield(now, now + LONG_YIELD);
        assert!(linger.polls_at(now), "a short yield");
        let back = now + LONG_YIELD + US;
        linger.note_yield(now, back);
        assert!(!linger.polls_at(now), "a long yield");
        linger.note_work(back);
        assert!(!linger.polls_at(back), "others compete");
        let later = back + (LONG_YIELD + US) * REST;
        linger.note_work(later - US);
        assert!(!linger.polls_at(later - US), "the rest goes on");
        linger.note_work(later);
        assert!(linger.polls_at(later), "they may be gone");
    }
}
