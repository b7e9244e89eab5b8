//! The times at which an experiment is measured.

use super::scenario::Scenario;
use roce_stack::{Duration, Instant};

/// The bytes sent and completed, and the pauses, up to some time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) wire: Vec<u64>,
    pub(super) done: Vec<u64>,
    pub(super) pauses: u64,
    pub(super) paused: Duration,
}

/// The times when flows start or stop, and the start and end of the experiment.
pub(super) fn phase_edges(scenario: &Scenario) -> Vec<Duration> {
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

/// The time from which queues and pauses are measured: the second half of a fixed duration, or all
/// of a mix, which ends with its last flow.
pub(super) fn measurement_start(scenario: &Scenario) -> Duration {
    if scenario.is_mix() {
        Duration::ZERO
    } else {
        scenario.duration / 2
    }
}

/// The middle and the end of each phase; the start of a mix.
pub(super) fn snapshot_times(scenario: &Scenario) -> Vec<Instant> {
    if scenario.is_mix() {
        return vec![Instant::ZERO];
    }
    phase_edges(scenario)
        .windows(2)
        .flat_map(|edge| [(edge[0] + edge[1]) / 2, edge[1]])
        .map(|at| Instant::ZERO + at)
        .collect()
}
