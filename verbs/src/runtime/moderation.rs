//! Moderation: one announcement for several completions of a queue.

use roce_stack::{CompletionQueue, CqId, Duration, Instant};
use std::collections::HashMap;
use std::sync::Arc;

/// The queues whose announcements wait for more completions.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    queues: HashMap<CqId, Moderated>,
    /// The announcements that wait, each with the time at which its wait ends.
    held: Vec<(CqId, Instant)>,
}

#[derive(Debug)]
struct Moderated {
    queue: Arc<CompletionQueue>,
    completions: u32,
    period: Duration,
}

impl Moderation {
    /// Makes a queue's announcements wait until `completions` completions have come, but at most
    /// `period`. If `completions` is at most 1, or `period` is zero, announcements do not wait. An
    /// announcement that already waits becomes due.
    pub(crate) fn set(&mut self, queue: &Arc<CompletionQueue>, completions: u32, period: Duration) {
        let id = queue.id();
        if completions > 1 && !period.is_zero() {
            let moderated = Moderated {
                queue: Arc::clone(queue),
                completions,
                period,
            };
            self.queues.insert(id, moderated);
        } else {
            self.queues.remove(&id);
        }
        for (_, until) in self.held.iter_mut().filter(|(held, _)| *held == id) {
            *until = Instant::ZERO;
        }
    }

    /// Forgets a queue that is destroyed.
    pub(crate) fn forget(&mut self, id: CqId) {
        self.queues.remove(&id);
        self.held.retain(|(held, _)| *held != id);
    }

    /// Called when a completion is to be announced. Returns whether the announcement waits for more
    /// completions.
    pub(crate) fn hold(&mut self, now: Instant, id: CqId) -> bool {
        let Some(moderated) = self.queues.get(&id) else {
            return false;
        };
        // An announcement that already waits covers this completion, too.
        if self.held.iter().all(|(held, _)| *held != id) {
            self.held.push((id, now + moderated.period));
        }
        true
    }

    /// When [`Moderation::take_due`] must be called next, regardless of completions until then.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.held.iter().map(|(_, until)| *until).min()
    }

    /// Whether any announcement waits.
    #[inline]
    pub(crate) fn holds_some(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes an announcement that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<CqId> {
        if self.held.is_empty() {
            return None;
        }
        let Self { queues, held } = self;
        let due = held
            .iter()
            .position(|(id, until)| *until <= now || queues.get(id).is_none_or(Moderated::is_full));
        due.map(|index| held.swap_remove(index).0)
    }
}

impl Moderated {
    fn is_full(&self) -> bool {
        self.queue.completions_since_event() >= self.completions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_micros(10);

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn queue(id: u64) -> Arc<CompletionQueue> {
        Arc::new(CompletionQueue::new(CqId(id), 8))
    }

    /// An announcement waits for at most its period. Another one that comes meanwhile is merged
    /// into it.
    #[test]
    fn a_period_is_the_longest_wait() {
        let mut moderation = Moderation::default();
        moderation.set(&queue(1), 4, PERIOD);
        assert!(
            !moderation.hold(at(5), CqId(2)),
            "that queue is not moderated"
        );
        assert_eq!(moderation.next(), None);
        assert!(moderation.hold(at(5), CqId(1)));
        assert!(moderation.hold(at(9), CqId(1)));
        assert_eq!(moderation.next(), Some(at(15)));
        assert_eq!(moderation.take_due(at(14)), None);
        assert_eq!(moderation.take_due(at(15)), Some(CqId(1)));
        assert_eq!(
            (moderation.take_due(at(99)), moderation.next()),
            (None, None)
        );
    }

    /// An announcement that waits when other values are set becomes due.
    #[test]
    fn who_sets_other_values_hears_of_what_waits() {
        for (completions, period, moderates) in [
            (1, PERIOD, false),
            (9, Duration::ZERO, false),
            (9, PERIOD, true),
        ] {
            let (mut moderation, queue) = (Moderation::default(), queue(1));
            moderation.set(&queue, 4, PERIOD);
            assert!(moderation.hold(at(5), CqId(1)));
            moderation.set(&queue, completions, period);
            assert_eq!(moderation.take_due(at(5)), Some(CqId(1)));
            assert_eq!(moderation.hold(at(6), CqId(1)), moderates);
        }
    }

    #[test]
    fn a_queue_that_goes_is_not_announced() {
        let mut moderation = Moderation::default();
        moderation.set(&queue(1), 4, PERIOD);
        assert!(moderation.hold(at(5), CqId(1)));
        moderation.forget(CqId(1));
        assert_eq!(
            (moderation.take_due(at(99)), moderation.next()),
            (None, None)
        );
        assert!(!moderation.hold(at(5), CqId(1)));
    }
}
