//! Moderation: one completion event for several completions of a queue.

use roce_stack::{CompletionQueue, CqId, Duration, Instant};
use std::collections::HashMap;
use std::sync::Arc;

/// The queues whose events are delayed until more completions arrive.
#[derive(Debug, Default)]
pub(crate) struct Moderation {
    queues: HashMap<CqId, Moderated>,
    /// The delayed events, each with the time by which it must be delivered.
    delayed: Vec<(CqId, Instant)>,
}

#[derive(Debug)]
struct Moderated {
    queue: Arc<CompletionQueue>,
    completions: u32,
    period: Duration,
}

impl Moderation {
    /// Delays a queue's events until `completions` completions have arrived, but at most `period`.
    /// If `completions` is at most 1, or `period` is zero, events are not delayed. An event that is
    /// already delayed becomes due.
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
        for (_, deadline) in self.delayed.iter_mut().filter(|(cq, _)| *cq == id) {
            *deadline = Instant::ZERO;
        }
    }

    pub(crate) fn remove(&mut self, id: CqId) {
        self.queues.remove(&id);
        self.delayed.retain(|(cq, _)| *cq != id);
    }

    /// Called when a queue has an event. Returns whether the event is delayed.
    pub(crate) fn delay(&mut self, now: Instant, id: CqId) -> bool {
        let Some(moderated) = self.queues.get(&id) else {
            return false;
        };
        // An event that is already delayed covers this completion, too.
        if self.delayed.iter().all(|(cq, _)| *cq != id) {
            self.delayed.push((id, now + moderated.period));
        }
        true
    }

    /// The time at which [`Moderation::take_due`] must be called, even if no completion arrives
    /// until then.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.delayed.iter().map(|(_, deadline)| *deadline).min()
    }

    #[inline]
    pub(crate) fn has_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<CqId> {
        if self.delayed.is_empty() {
            return None;
        }
        let Self { queues, delayed } = self;
        let due = delayed.iter().position(|(id, deadline)| {
            *deadline <= now || queues.get(id).is_none_or(Moderated::is_full)
        });
        due.map(|index| delayed.swap_remove(index).0)
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

    /// An event is delayed for at most its period. Another event in this time is merged into it.
    #[test]
    fn an_event_is_delayed_for_at_most_its_period() {
        let mut moderation = Moderation::default();
        moderation.set(&queue(1), 4, PERIOD);
        assert!(
            !moderation.delay(at(5), CqId(2)),
            "that queue is not moderated"
        );
        assert_eq!(moderation.next_deadline(), None);
        assert!(moderation.delay(at(5), CqId(1)));
        assert!(moderation.delay(at(9), CqId(1)));
        assert_eq!(moderation.next_deadline(), Some(at(15)));
        assert_eq!(moderation.take_due(at(14)), None);
        assert_eq!(moderation.take_due(at(15)), Some(CqId(1)));
        assert_eq!(
            (moderation.take_due(at(99)), moderation.next_deadline()),
            (None, None)
        );
    }

    /// A delayed event becomes due when other values are set.
    #[test]
    fn setting_other_values_makes_delayed_events_due() {
        for (completions, period, moderates) in [
            (1, PERIOD, false),
            (9, Duration::ZERO, false),
            (9, PERIOD, true),
        ] {
            let (mut moderation, queue) = (Moderation::default(), queue(1));
            moderation.set(&queue, 4, PERIOD);
            assert!(moderation.delay(at(5), CqId(1)));
            moderation.set(&queue, completions, period);
            assert_eq!(moderation.take_due(at(5)), Some(CqId(1)));
            assert_eq!(moderation.delay(at(6), CqId(1)), moderates);
        }
    }

    #[test]
    fn a_destroyed_queue_has_no_events() {
        let mut moderation = Moderation::default();
        moderation.set(&queue(1), 4, PERIOD);
        assert!(moderation.delay(at(5), CqId(1)));
        moderation.remove(CqId(1));
        assert_eq!(
            (moderation.take_due(at(99)), moderation.next_deadline()),
            (None, None)
        );
        assert!(!moderation.delay(at(5), CqId(1)));
    }
}
