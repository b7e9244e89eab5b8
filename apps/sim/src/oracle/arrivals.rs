//! Tracks which messages of a flow have consumed a receive of a pool.

use std::collections::BTreeMap;

/// The messages on a flow that takes its receives from a pool.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The number of arrivals of each consuming request.
    pub(super) counts: Vec<u8>,
    /// The requests that must arrive.
    pub(super) due: Vec<bool>,
    /// One past the newest that has arrived.
    pub(super) resolved: usize,
    /// The last completed receive of each pool.
    pub(super) last: BTreeMap<usize, u64>,
}

impl Arrivals {
    pub(super) fn posted(&mut self, due: bool) {
        self.counts.push(0);
        self.due.push(due);
    }

    pub(super) fn record(&mut self, n: usize) {
        self.counts[n] += 1;
        self.resolved = self.resolved.max(n + 1);
    }

    /// The first request that must have arrived but has not.
    pub(super) fn missing(&self) -> Option<usize> {
        (0..self.due.len()).find(|n| self.due[*n] && self.counts[*n] == 0)
    }

    pub(super) fn has_arrived(&self, n: usize) -> bool {
        self.counts[n] > 0
    }
}
