//! The intervals of all curves.

use roce_stack::{Duration, Instant};

/// Consecutive intervals, at most a fixed number of them. Each consists of the same number of
/// steps, but the last one may have fewer.
#[derive(Clone, Debug)]
pub struct Axis {
    begin: Instant,
    /// The end of each interval.
    ends: Vec<Instant>,
    steps_per_interval: usize,
    steps_in_last: usize,
    limit: usize,
}

impl Axis {
    /// An axis from `begin` with at most `limit` intervals.
    pub(super) fn new(begin: Instant, limit: usize) -> Self {
        Self {
            begin,
            ends: Vec::new(),
            steps_per_interval: 1,
            steps_in_last: 0,
            // With an even limit, the intervals are complete when they are joined.
            limit: limit.max(2).next_multiple_of(2),
        }
    }

    /// Whether the next step needs space: the caller halves the axis and all curves first.
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() == self.limit && self.steps_in_last == self.steps_per_interval
    }

    /// Joins every two intervals.
    pub(super) fn halve(&mut self) {
        self.ends = self.ends.iter().skip(1).step_by(2).copied().collect();
        self.steps_per_interval *= 2;
        self.steps_in_last = self.steps_per_interval;
    }

    /// Adds a step up to `now`. Returns the number of its interval.
    pub(super) fn step(&mut self, now: Instant) -> usize {
        match self.ends.last_mut() {
            Some(last) if self.steps_in_last < self.steps_per_interval => {
                *last = now;
                self.steps_in_last += 1;
            }
            _ => {
                self.ends.push(now);
                self.steps_in_last = 1;
            }
        }
        self.ends.len() - 1
    }

    /// The number of intervals.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The start of the first interval.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// The end of the last interval.
    pub fn end(&self) -> Instant {
        self.ends.last().copied().unwrap_or(self.begin)
    }

    /// The start and the end of interval `index`.
    pub fn interval(&self, index: usize) -> Option<[Instant; 2]> {
        let end = self.ends.get(index).copied()?;
        let begin = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied()?,
            None => self.begin,
        };
        Some([begin, end])
    }

    /// The length of interval `index`; zero if there is no such interval.
    pub fn length(&self, index: usize) -> Duration {
        self.interval(index)
            .map(|[begin, end]| end.saturating_duration_since(begin))
            .unwrap_or_default()
    }
}
