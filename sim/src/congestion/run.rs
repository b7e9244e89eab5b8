//! Lets an experiment happen.

use super::flow::{Flow, MTU, Side, of_request};
use super::metrics::{jain, percentile};
use super::network::Link;
use super::outcome::{Completion, Outcome, Phase, Row, Times};
use super::scenario::Scenario;
use crate::fabric::{Fabric, HostId, Meter, OVERHEAD_BYTES, Step};
use roce_stack::{Duration, Instant, Stat};
use std::fmt;

/// An experiment could not go on: the stack refused something, or a request failed.
#[derive(Clone, Debug)]
pub struct RunError(String);

impl RunError {
    pub(super) fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// Between two looks at the queues.
const LOOK_EVERY: Duration = Duration::from_micros(5);

/// What the flows of a mix get to come to their end, local ACK timeouts included.
const PATIENCE: Duration = Duration::from_secs(2);

/// BTH and ICRC.
const HEADERS_BYTES: u64 = 16;

/// What a time that was asked for is for.
#[derive(Clone, Copy, Debug)]
enum Call {
    Look,
    Row,
    Start(usize),
    Stop(usize),
    /// The middle or the end of a phase, or of the experiment.
    Mark,
}

impl Call {
    fn token(self) -> u64 {
        match self {
            Self::Look => 0,
            Self::Row => 1,
            Self::Mark => 2,
            Self::Start(flow) => 4 + 2 * flow as u64,
            Self::Stop(flow) => 5 + 2 * flow as u64,
        }
    }

    fn of(token: u64) -> Self {
        match token {
            0 => Self::Look,
            1 => Self::Row,
            2 => Self::Mark,
            n if n % 2 == 0 => Self::Start(((n - 4) / 2) as usize),
            n => Self::Stop(((n - 4) / 2) as usize),
        }
    }
}

/// Lets an experiment happen. `progress` is told after each point of the curves how much
/// virtual time has passed since it was told last.
///
/// # Errors
/// If a request fails, which none does unless something is wrong with the stack.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(Duration),
) -> Result<Outcome, RunError> {
    let mut run = Run::new(scenario, seed)?;
    let end = Instant::ZERO + scenario.duration;
    let end = if scenario.is_mix() {
        end + PATIENCE
    } else {
        end
    };
    while let Some(step) = run.fabric.step(end) {
        match step {
            Step::Inside => {}
            Step::Host(host) => run.look_at(host)?,
            Step::Call(token) => {
                let call = Call::of(token);
                run.call(call)?;
                if matches!(call, Call::Row) {
                    progress(scenario.every);
                }
            }
        }
        if run.left == 0 && scenario.is_mix() {
            break;
        }
    }
    Ok(run.outcome(seed))
}

/// What had been sent and done at some time.
#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    wire: Vec<u64>,
    done: Vec<u64>,
    pauses: u64,
    paused: Duration,
}

struct Run<'a> {
    scenario: &'a Scenario,
    fabric: Fabric,
    sides: Vec<Side>,
    flows: Vec<Flow>,
    /// Flows of a mix that are not done.
    left: usize,
    links: Vec<Link>,
    marks: Vec<Mark>,
    rows: Vec<Row>,
    /// What each flow's receiver had got at the last row.
    received: Vec<u64>,
    pauses: u64,
    /// What waited at the links, each time somebody looked in the second half.
    looks: Vec<u32>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, RunError> {
        let mut fabric = scenario.build(seed);
        let control = scenario.algorithm.control(scenario.dcqcn);
        let hosts: Vec<HostId> = (0..scenario.topology.hosts()).map(HostId).collect();
        let sides = hosts
            .iter()
            .map(|&host| {
                fabric.nic(host).set_congestion_control(control);
                Side::new(&mut fabric, host, scenario.flows.len())
            })
            .collect::<Result<_, _>>()?;
        let receivers: Vec<usize> = scenario.flows.iter().map(|flow| flow.to).collect();
        for (number, flow) in scenario.flows.iter().enumerate() {
            fabric.call_at(Instant::ZERO + flow.start, Call::Start(number).token());
            if let Some(stop) = flow.stop {
                fabric.call_at(Instant::ZERO + stop, Call::Stop(number).token());
            }
        }
        for at in marks_of(scenario) {
            fabric.call_at(at, Call::Mark.token());
        }
        fabric.call_at(Instant::ZERO + scenario.every, Call::Row.token());
        fabric.call_at(Instant::ZERO + measured_from(scenario), Call::Look.token());
        Ok(Self {
            scenario,
            fabric,
            sides,
            flows: scenario.flows.iter().copied().map(Flow::new).collect(),
            left: scenario.flows.len(),
            links: scenario.topology.shared_links(&receivers),
            marks: Vec::new(),
            rows: Vec::new(),
            received: vec![0; scenario.flows.len()],
            pauses: 0,
            looks: Vec::new(),
        })
    }

    /// Takes a host's completions.
    fn look_at(&mut self, host: HostId) -> Result<(), RunError> {
        let Self {
            fabric,
            sides,
            flows,
            ..
        } = self;
        let mut any = false;
        while let Some(completion) = sides[host.0].cq.poll().map_err(RunError::new)? {
            any = true;
            let (number, bytes) = of_request(completion.wr_id);
            let what = (completion.status, bytes);
            let flow = &mut flows[number];
            flow.completed(number, what, fabric, sides)?;
            if flow.finished.is_some() {
                self.left -= 1;
            }
        }
        if any {
            fabric.drive(host);
        }
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), RunError> {
        match call {
            Call::Look => {
                for (cable, from) in &self.links {
                    let meter = self.fabric.meter(*cable, *from);
                    let bytes = meter.map_or(0, |meter| meter.queue_bytes);
                    self.looks.push(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
                self.again(LOOK_EVERY, Call::Look);
            }
            Call::Row => self.row(),
            Call::Start(number) => {
                let Self { fabric, sides, .. } = self;
                self.flows[number].start(number, fabric, sides)?;
            }
            Call::Stop(number) => self.flows[number].stop(&mut self.fabric, &self.sides),
            Call::Mark => {
                let mark = self.mark();
                self.marks.push(mark);
            }
        }
        Ok(())
    }

    /// Calls again later, but not after the end.
    fn again(&mut self, after: Duration, call: Call) {
        let next = self.fabric.now() + after;
        if next <= Instant::ZERO + self.scenario.duration {
            self.fabric.call_at(next, call.token());
        }
    }

    /// Another point of the curves.
    fn row(&mut self) {
        let now = self.fabric.now();
        let seconds = self.scenario.every.as_secs_f64();
        let mut rates = Vec::new();
        if !self.scenario.is_mix() {
            for (number, flow) in self.scenario.flows.iter().enumerate() {
                let (cable, from) = self.scenario.topology.link_to(flow.to);
                let meter = self.fabric.meter(cable, from);
                let bytes = meter.and_then(|meter| meter.wire_bytes_of.get(flow.from).copied());
                let bytes = bytes.unwrap_or(0);
                let before = std::mem::replace(&mut self.received[number], bytes);
                rates.push((bytes - before) as f64 * 8e-9 / seconds);
            }
        }
        let mut queue = Vec::new();
        let mut peak = Vec::new();
        for (cable, from) in &self.links {
            if let Some(meter) = self.fabric.meter(*cable, *from) {
                queue.push(meter.queue_bytes);
                peak.push(meter.take_peak());
            }
        }
        let pauses = self.fabric.counters().pauses;
        self.rows.push(Row {
            ms: now.as_nanos() as f64 / 1e6,
            rates,
            queue,
            peak,
            pauses: pauses - self.pauses,
        });
        self.pauses = pauses;
        self.again(self.scenario.every, Call::Row);
    }

    fn mark(&mut self) -> Mark {
        let at = self.fabric.now();
        let Self { fabric, links, .. } = self;
        let wire = links
            .iter()
            .map(|(cable, from)| {
                fabric
                    .meter(*cable, *from)
                    .map_or(0, |meter| meter.wire_bytes)
            })
            .collect();
        let paused = (0..fabric.hosts())
            .filter_map(|host| {
                let (cable, _) = self.scenario.topology.link_to(host);
                let meter: Option<&mut Meter> = fabric.meter(cable, HostId(host));
                meter.map(|meter| meter.paused_for(at))
            })
            .sum();
        Mark {
            at,
            wire,
            done: self.flows.iter().map(|flow| flow.done).collect(),
            pauses: fabric.counters().pauses,
            paused,
        }
    }

    fn phases(&self) -> Vec<Phase> {
        if self.scenario.is_mix() {
            return Vec::new();
        }
        let edges = edges_of(self.scenario);
        let phase = |(edge, marks): (&[Duration], &[Mark])| {
            let [begin, end] = [&marks[0], &marks[1]];
            let time = end.at.saturating_duration_since(begin.at).as_secs_f64();
            let there = |flow: &Flow| {
                flow.plan.start < edge[1] && flow.plan.stop.is_none_or(|stop| stop >= edge[1])
            };
            let goodput: Vec<(usize, f64)> = (0..self.flows.len())
                .filter(|&number| there(&self.flows[number]))
                .map(|number| {
                    let bytes = end.done[number] - begin.done[number];
                    (number, bytes as f64 * 8e-9 / time)
                })
                .collect();
            let shares: Vec<f64> = goodput.iter().map(|(_, rate)| *rate).collect();
            let whole = self.scenario.bits_per_sec as f64 / 8.0 * time;
            let busy = |(after, before): (&u64, &u64)| (after - before) as f64 / whole;
            Phase {
                from_ms: edge[0].as_secs_f64() * 1e3,
                to_ms: edge[1].as_secs_f64() * 1e3,
                jain: jain(&shares).unwrap_or(f64::NAN),
                goodput,
                utilisation: end.wire.iter().zip(&begin.wire).map(busy).collect(),
            }
        };
        edges
            .windows(2)
            .zip(self.marks.chunks_exact(2))
            .map(phase)
            .collect()
    }

    /// How long a flow takes that has the way for itself.
    fn alone(&self, bytes: u64) -> Duration {
        let packets = bytes.div_ceil(MTU.bytes() as u64);
        let headers = HEADERS_BYTES + OVERHEAD_BYTES;
        let bits = (bytes + packets * headers) * 8;
        let ns = bits as f64 * 1e9 / self.scenario.bits_per_sec as f64;
        // There and back, through a switch.
        Duration::from_nanos(ns as u64) + self.scenario.delay * 4
    }

    fn times(&self) -> Option<Times> {
        if !self.scenario.is_mix() {
            return None;
        }
        let done = self.flows.iter().filter_map(|flow| {
            let begin = Instant::ZERO + flow.plan.start;
            let took = flow.finished?.saturating_duration_since(begin);
            let bytes = flow.plan.bytes?;
            Some(Completion {
                bytes,
                milliseconds: took.as_secs_f64() * 1e3,
                alone_ms: self.alone(bytes).as_secs_f64() * 1e3,
            })
        });
        Some(Times::of(self.flows.len(), done.collect()))
    }

    fn outcome(mut self, seed: u64) -> Outcome {
        let end = self.mark();
        let middle = Instant::ZERO + measured_from(self.scenario);
        let late = self
            .marks
            .iter()
            .find(|mark| mark.at >= middle)
            .unwrap_or(&end);
        let hosts = self.fabric.hosts();
        let time = end.at.saturating_duration_since(late.at).as_secs_f64();
        let paused = (end.paused - late.paused).as_secs_f64() / (hosts as f64 * time).max(1e-12);
        let peaks = |from: Instant| {
            let rows = self
                .rows
                .iter()
                .filter(move |row| row.ms * 1e6 > from.as_nanos() as f64);
            rows.flat_map(|row| &row.peak).copied().max().unwrap_or(0)
        };
        let seconds = end.at.as_nanos() as f64 / 1e9;
        let counters = self.fabric.counters();
        let phases = self.phases();
        let times = self.times();
        let mut looks = std::mem::take(&mut self.looks);
        let mut queue = |percent| percentile(&mut looks, percent).unwrap_or(0) as usize;
        let stats = [Stat::Retransmitted, Stat::CnpsSent].map(|stat| {
            let of = |host| self.fabric.nic(HostId(host)).counters().stat(stat);
            (0..hosts).map(of).sum()
        });
        Outcome {
            scenario: self.scenario.name,
            algorithm: self.scenario.algorithm,
            loss: self.scenario.loss,
            seed,
            fingerprint: self.fabric.fingerprint(),
            milliseconds: seconds * 1e3,
            phases,
            goodput: end.done.iter().sum::<u64>() as f64 * 8e-9 / seconds,
            queue_p50: queue(50.0),
            queue_p99: queue(99.0),
            queue_max: peaks(Instant::ZERO),
            queue_max_late: peaks(middle),
            dropped: counters.dropped,
            retransmitted: stats[0],
            marked: counters.marked,
            cnps: stats[1],
            pauses: [counters.pauses, counters.pauses - late.pauses],
            paused,
            times,
            rows: self.rows,
        }
    }
}

/// When flows begin or end, and the begin and end of it all.
fn edges_of(scenario: &Scenario) -> Vec<Duration> {
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
fn measured_from(scenario: &Scenario) -> Duration {
    if scenario.is_mix() {
        Duration::ZERO
    } else {
        scenario.duration / 2
    }
}

/// The middle and the end of each phase; of a mix, the begin.
fn marks_of(scenario: &Scenario) -> Vec<Instant> {
    if scenario.is_mix() {
        return vec![Instant::ZERO];
    }
    edges_of(scenario)
        .windows(2)
        .flat_map(|edge| [(edge[0] + edge[1]) / 2, edge[1]])
        .map(|at| Instant::ZERO + at)
        .collect()
}
