//! The times at which an experiment is measured.

use super::scenario::Scenario;
use roce_stack::{Duration, Instant};

/// What had been sent and done at some time.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) at: Instant,
    pub(super) wire: Vec<u64>,
    pub(super) done: Vec<u64>,
    pub(super) pauses: u64,
    pub(super) paused: Duration,
}

/// When flows begin or end, and the begin and end of it all.
pub(super) fn edges_of(scenario: &Scenario) -> Vec<Duration> {
    let flows = scenario.flows.iter();
    let mut edges: Vec<Duration> = flows
        .flat_map(|flow| [Some(flow.start), flow.stop])
        .flatten()
        .collect();
    edges.extend([Duration::ZERO, scenario.duration]);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// From when on queues and pauses are looked at: the second half of what lasts, all of a
/// mix, which is over when it is.
pub(super) fn measured_from(scenario: &Scenario) -> Duration {
    if scenario.is_mix() {
        Duration::ZERO
    } else {
        scenario.duration / 2
    }
}

/// The middle and the end of each phase; of a mix, the begin.
pub(super) fn marks_of(scenario: &Scenario) -> Vec<Instant> {
    if scenario.is_mix() {
        return vec![Instant::ZERO];
    }
    edges_of(scenario)
        .windows(2)
        .flat_map(|edge| [(edge[0] + edge[1]) / 2, edge[1]])
        .map(|at| Instant::ZERO + at)
        .collect()
}
