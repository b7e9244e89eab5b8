//! The outcome of an experiment.

use super::scenario::Algorithm;
use super::topology::Loss;
use serde::Serialize;

/// The outcome of an experiment. Rates are in Gbit/s on the wire, with all headers, the preamble
/// and the gap, unless they are called goodput.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The scenario.
    pub scenario: &'static str,
    /// The senders' algorithm.
    pub algorithm: Algorithm,
    /// The switches' behaviour when they run full.
    pub loss: Loss,
    /// The seed of the run.
    pub seed: u64,
    /// Identifies the run: two runs with the same fingerprint were the same, packet for packet.
    pub fingerprint: u64,
    /// Its duration in virtual time.
    pub milliseconds: f64,
    /// The phases between changes of the set of flows. Empty for a mix.
    pub phases: Vec<Phase>,
    /// Payload of the completed requests of all flows, over the whole time.
    pub goodput: f64,
    /// Mean of the bytes queued at the bottlenecks, in the second half of the time (for a mix, in
    /// all of it).
    pub queue_mean: f64,
    /// Median of the same.
    pub queue_p50: usize,
    /// The 99th percentile of the same.
    pub queue_p99: usize,
    /// The most bytes that were ever queued for one of the links.
    pub queue_max: usize,
    /// The most bytes queued in the second half.
    pub queue_max_late: usize,
    /// Packets that switches dropped.
    pub dropped: u64,
    /// Packets that hosts retransmitted.
    pub retransmitted: u64,
    /// Packets that switches marked.
    pub marked: u64,
    /// CNPs that hosts sent.
    pub cnps: u64,
    /// Pause frames in all, and in the second half.
    pub pauses: [u64; 2],
    /// The share of the second half for which pause frames stopped a host, averaged over all hosts.
    pub paused: f64,
    /// Completion times of a mix's flows.
    pub times: Option<Times>,
    /// The curves, for plots.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// A phase between two changes of the set of flows. Its second half is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its start.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// Goodput of each active flow, by its number.
    pub goodput: Vec<(usize, f64)>,
    /// Jain's index of these.
    pub jain: f64,
    /// The share of time that each shared link was busy.
    pub utilisation: Vec<f64>,
}

/// The completion times of a mix's flows.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// Number of flows.
    pub flows: usize,
    /// Number of flows that were not done when the experiment ended.
    pub unfinished: usize,
    /// Median completion time, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Median slowdown, relative to the time that the flow would have taken alone.
    pub slowdown_p50: f64,
    /// 99th percentile of the slowdown.
    pub slowdown_p99: f64,
    /// 99th percentile for flows up to 100 KB, in milliseconds.
    pub small_p99_ms: f64,
    /// Jain's index of the rates of flows of a megabyte and more.
    pub jain: f64,
    /// Each flow, for plots.
    #[serde(skip)]
    pub each: Vec<Completion>,
}

/// A completed flow.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Completion {
    /// Its size in bytes.
    pub bytes: u64,
    /// From its start to the last acknowledgement.
    pub milliseconds: f64,
    /// The time that it would have taken alone.
    pub alone_ms: f64,
}

/// A point of the curves.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The end of the interval.
    pub ms: f64,
    /// The rate at each flow's receiver in the interval, in Gbit/s on the wire.
    pub rates: Vec<f64>,
    /// Bytes queued for each shared link at the end of the interval.
    pub queue: Vec<usize>,
    /// Mean of the bytes queued there in the interval.
    pub mean: Vec<f64>,
    /// The most bytes queued there in the interval.
    pub peak: Vec<usize>,
    /// Pause frames in the interval.
    pub pauses: u64,
}

impl Outcome {
    /// The lowest Jain's index of a phase, among phases with several flows. For a mix, the index of
    /// its large flows ([`Times::jain`]). `None` if there is neither.
    pub fn jain(&self) -> Option<f64> {
        let shared = self.phases.iter().filter(|phase| phase.goodput.len() > 1);
        let least = shared.map(|phase| phase.jain).min_by(f64::total_cmp);
        least.or(self.times.as_ref().map(|times| times.jain))
    }

    /// The lowest utilisation of a phase's busiest link.
    pub fn utilisation(&self) -> Option<f64> {
        let busiest = |phase: &Phase| phase.utilisation.iter().copied().max_by(f64::total_cmp);
        let of_all = self.phases.iter().filter_map(busiest);
        of_all.min_by(f64::total_cmp)
    }
}

impl Times {
    pub(super) fn of(flows: usize, each: Vec<Completion>) -> Self {
        let at = |percent: f64, of: &dyn Fn(&Completion) -> f64, max_bytes: u64| {
            let selected = each.iter().filter(|one| one.bytes <= max_bytes);
            let mut values: Vec<f64> = selected.map(of).collect();
            percentile(&mut values, percent).unwrap_or(f64::NAN)
        };
        let time = |one: &Completion| one.milliseconds;
        let slowdown = |one: &Completion| one.milliseconds / one.alone_ms;
        let large: Vec<f64> = each
            .iter()
            .filter(|one| one.bytes >= 1_000_000)
            .map(|one| one.bytes as f64 / one.milliseconds)
            .collect();
        Self {
            flows,
            unfinished: flows - each.len(),
            p50_ms: at(50.0, &time, u64::MAX),
            p99_ms: at(99.0, &time, u64::MAX),
            slowdown_p50: at(50.0, &slowdown, u64::MAX),
            slowdown_p99: at(99.0, &slowdown, u64::MAX),
            small_p99_ms: at(99.0, &time, 100_000),
            jain: jain(&large).unwrap_or(f64::NAN),
            each,
        }
    }
}

/// Jain's index of fairness: 1 if all shares are equal, 1/n if only one of n shares is not 0.
/// `None` if there are no shares, or all are 0.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The value that `percent` percent of all do not exceed (nearest rank). Sorts the values. `None`
/// if there are none.
pub fn percentile<T: Copy + PartialOrd>(values: &mut [T], percent: f64) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}
