//! What came of an experiment.

use super::metrics::percentile;
use super::scenario::Algorithm;
use super::topology::Loss;
use serde::Serialize;

/// What came of an experiment. Rates are in Gbit/s, of the wire with all headers, the
/// preamble and the gap, unless they are called goodput.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The scenario.
    pub scenario: &'static str,
    /// What senders did.
    pub algorithm: Algorithm,
    /// What switches did when they ran full.
    pub loss: Loss,
    /// The seed that it came from.
    pub seed: u64,
    /// Names the run: the same for two runs that were the same, packet for packet.
    pub fingerprint: u64,
    /// How long it took in virtual time.
    pub milliseconds: f64,
    /// Between changes: which flows there were, and what they got. None in a mix.
    pub phases: Vec<Phase>,
    /// Payload of completed requests, of all flows, over the whole time.
    pub goodput: f64,
    /// Bytes that waited at the bottlenecks, half of the second half of the time (of a mix:
    /// of all of it) no more.
    pub queue_p50: usize,
    /// 99 percent of that time no more.
    pub queue_p99: usize,
    /// The most that ever waited for one of the links.
    pub queue_max: usize,
    /// The most that waited in the second half.
    pub queue_max_late: usize,
    /// Packets that switches dropped.
    pub dropped: u64,
    /// Packets that hosts sent again.
    pub retransmitted: u64,
    /// Packets that switches marked.
    pub marked: u64,
    /// CNPs that hosts sent.
    pub cnps: u64,
    /// Pause frames, and those of the second half.
    pub pauses: [u64; 2],
    /// The share of the second half that a host was stopped by them, of all on average.
    pub paused: f64,
    /// Flows of a mix.
    pub times: Option<Times>,
    /// Over time, for plots.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

/// Between two changes of which flows there are. Measured is the second half of it.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// When it began.
    pub from_ms: f64,
    /// When it ended.
    pub to_ms: f64,
    /// Goodput of each flow that there was, by its number.
    pub goodput: Vec<(usize, f64)>,
    /// Jain's index of those.
    pub jain: f64,
    /// The share of time that each shared link was busy.
    pub utilisation: Vec<f64>,
}

/// How long the flows of a mix took.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// How many flows there were.
    pub flows: usize,
    /// How many of those were not done when the experiment ended.
    pub unfinished: usize,
    /// Half of the flows took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 99 percent of them did not.
    pub p99_ms: f64,
    /// The same as multiples of what they would have taken alone.
    pub slowdown_p50: f64,
    /// 99 percent.
    pub slowdown_p99: f64,
    /// Of flows up to 100 KB alone: 99 percent, in milliseconds.
    pub small_p99_ms: f64,
    /// Jain's index of what flows of a megabyte and more got in their time.
    pub jain: f64,
    /// Each, for plots.
    #[serde(skip)]
    pub each: Vec<Completion>,
}

/// A flow that is done.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Completion {
    /// How much it was.
    pub bytes: u64,
    /// From its start to the last acknowledgement.
    pub milliseconds: f64,
    /// How long it would have taken alone.
    pub alone_ms: f64,
}

/// A point of the curves.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The end of the interval.
    pub ms: f64,
    /// What each flow's receiver got in the interval, in Gbit/s on the wire.
    pub rates: Vec<f64>,
    /// Bytes that wait for each shared link now.
    pub queue: Vec<usize>,
    /// The most that waited there in the interval.
    pub peak: Vec<usize>,
    /// Pause frames in the interval.
    pub pauses: u64,
}

impl Outcome {
    /// The least of the phases' indices, where there are flows that share.
    pub fn jain(&self) -> Option<f64> {
        let shared = self.phases.iter().filter(|phase| phase.goodput.len() > 1);
        let least = shared.map(|phase| phase.jain).min_by(f64::total_cmp);
        least.or(self.times.as_ref().map(|times| times.jain))
    }

    /// The least utilisation of a phase, of its busiest link.
    pub fn utilisation(&self) -> Option<f64> {
        let busiest = |phase: &Phase| phase.utilisation.iter().copied().max_by(f64::total_cmp);
        let of_all = self.phases.iter().filter_map(busiest);
        of_all.min_by(f64::total_cmp)
    }
}

impl Times {
    pub(super) fn of(flows: usize, each: Vec<Completion>) -> Self {
        let at = |percent: f64, of: &dyn Fn(&Completion) -> f64, most: u64| {
            let few = each.iter().filter(|one| one.bytes <= most);
            let mut values: Vec<f64> = few.map(of).collect();
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
            jain: super::metrics::jain(&large).unwrap_or(f64::NAN),
            each,
        }
    }
}
