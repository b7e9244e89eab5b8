//! Runs an experiment.

use super::error::RunError;
use super::flow::{Flow, HostObjects, decode_wr_id};
use super::network::build;
use super::outcome::{Outcome, Row};
use super::scenario::Scenario;
use super::snapshots::{Snapshot, measurement_start, snapshot_times};
use super::topology::Direction;
use crate::fabric::{Fabric, HostId, Step};
use crate::network::{HostChange, Network};
use roce_stack::{Duration, Instant};

/// The time between two samples of the queue lengths.
const QUEUE_SAMPLE_INTERVAL: Duration = Duration::from_micros(5);

/// The time after the scenario's duration in which the flows of a mix may finish. It allows for
/// local ACK timeouts.
const MIX_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The purpose of a requested call.
#[derive(Clone, Copy, Debug)]
enum Call {
    SampleQueues,
    AddRow,
    Start(usize),
    Stop(usize),
    /// An event of the network.
    Change(usize),
    /// The middle or the end of a phase, or of the experiment.
    TakeSnapshot,
}

impl Call {
    fn to_token(self) -> u64 {
        match self {
            Self::SampleQueues => 0,
            Self::AddRow => 1,
            Self::TakeSnapshot => 2,
            Self::Start(flow) => 3 + 3 * flow as u64,
            Self::Stop(flow) => 4 + 3 * flow as u64,
            Self::Change(event) => 5 + 3 * event as u64,
        }
    }

    fn from_token(token: u64) -> Self {
        match token {
            0 => Self::SampleQueues,
            1 => Self::AddRow,
            2 => Self::TakeSnapshot,
            n => {
                let number = (n / 3 - 1) as usize;
                match n % 3 {
                    0 => Self::Start(number),
                    1 => Self::Stop(number),
                    _ => Self::Change(number),
                }
            }
        }
    }
}

/// Runs an experiment. After each point of the curves it calls `progress` with the virtual time
/// since the last call.
///
/// # Errors
/// If a request fails, or the stack refuses a call. Both are bugs of the stack, unless the network
/// loses many packets or has events.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(Duration),
) -> Result<Outcome, RunError> {
    let mut run = Run::new(scenario, seed)?;
    let end = Instant::ZERO + scenario.duration;
    let end = if scenario.is_mix() {
        end + MIX_GRACE_PERIOD
    } else {
        end
    };
    while let Some(step) = run.fabric.step(end) {
        match step {
            Step::Internal => {}
            Step::Host(host) => run.poll_host(host)?,
            Step::Call(token) => {
                let call = Call::from_token(token);
                run.call(call)?;
                if matches!(call, Call::AddRow) {
                    progress(scenario.every);
                }
            }
        }
        if run.unfinished == 0 && scenario.is_mix() {
            break;
        }
    }
    Ok(run.outcome(seed))
}

pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) fabric: Fabric,
    host_objects: Vec<HostObjects>,
    pub(super) flows: Vec<Flow>,
    /// The number of unfinished flows of a mix.
    unfinished: usize,
    pub(super) network: Network,
    pub(super) links: Vec<Direction>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) rows: Vec<Row>,
    /// The bytes that each flow's receiver had received at the last row.
    received: Vec<u64>,
    /// The sums of the queue lengths of each shared link at the last row.
    queue_byte_ns: Vec<u128>,
    /// The number of pause frames at the last row.
    pauses: u64,
    /// The queue lengths of the links, for each sample in the second half.
    pub(super) queue_samples: Vec<u32>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, RunError> {
        let network = scenario.network();
        let mut fabric = build(&network, seed);
        let control = scenario.control();
        let hosts: Vec<HostId> = (0..fabric.hosts()).map(HostId).collect();
        let host_objects = hosts
            .iter()
            .map(|&host| {
                let nic = fabric.nic(host);
                nic.set_congestion_control(control);
                nic.set_notification_point(scenario.notification);
                HostObjects::new(&mut fabric, host, scenario.flows.len())
            })
            .collect::<Result<_, _>>()?;
        let receivers: Vec<usize> = scenario.flows.iter().map(|flow| flow.to).collect();
        let links = scenario.topology.shared_links(&network, &receivers);
        for (number, flow) in scenario.flows.iter().enumerate() {
            fabric.call_at(Instant::ZERO + flow.start, Call::Start(number).to_token());
            if let Some(stop) = flow.stop {
                fabric.call_at(Instant::ZERO + stop, Call::Stop(number).to_token());
            }
        }
        for (number, event) in network.events.iter().enumerate() {
            fabric.call_at(Instant::ZERO + event.at, Call::Change(number).to_token());
        }
        for at in snapshot_times(scenario) {
            fabric.call_at(at, Call::TakeSnapshot.to_token());
        }
        fabric.call_at(Instant::ZERO + scenario.every, Call::AddRow.to_token());
        fabric.call_at(
            Instant::ZERO + measurement_start(scenario),
            Call::SampleQueues.to_token(),
        );
        Ok(Self {
            scenario,
            fabric,
            host_objects,
            flows: scenario.flows.iter().copied().map(Flow::new).collect(),
            unfinished: scenario.flows.len(),
            queue_byte_ns: vec![0; links.len()],
            links,
            network,
            snapshots: Vec::new(),
            rows: Vec::new(),
            received: vec![0; scenario.flows.len()],
            pauses: 0,
            queue_samples: Vec::new(),
        })
    }

    /// Polls a host's completions, and posts the next requests.
    fn poll_host(&mut self, host: HostId) -> Result<(), RunError> {
        let Self {
            fabric,
            host_objects,
            flows,
            ..
        } = self;
        let mut any = false;
        while let Some(completion) = host_objects[host.0].cq.poll().map_err(RunError::new)? {
            any = true;
            let (number, bytes) = decode_wr_id(completion.wr_id);
            let result = (completion.status, bytes);
            let flow = &mut flows[number];
            flow.completed(number, result, fabric, host_objects)?;
            if flow.finished.is_some() {
                self.unfinished -= 1;
            }
        }
        if any {
            fabric.drive(host);
        }
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), RunError> {
        match call {
            Call::SampleQueues => {
                for (cable, from) in &self.links {
                    let meter = self.fabric.meter(*cable, *from);
                    let bytes = meter.map_or(0, |meter| meter.queue_bytes);
                    self.queue_samples
                        .push(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
                self.call_again_after(QUEUE_SAMPLE_INTERVAL, Call::SampleQueues);
            }
            Call::AddRow => self.add_row(),
            Call::Start(number) => {
                let Self {
                    fabric,
                    host_objects,
                    ..
                } = self;
                self.flows[number].start(number, fabric, host_objects)?;
            }
            Call::Stop(number) => self.flows[number].stop(&mut self.fabric, &self.host_objects),
            Call::Change(number) => self.change(number)?,
            Call::TakeSnapshot => {
                let snapshot = self.snapshot();
                self.snapshots.push(snapshot);
            }
        }
        Ok(())
    }

    /// An event of the network happens.
    fn change(&mut self, number: usize) -> Result<(), RunError> {
        let change = self.network.events[number].change;
        match self.network.apply(&mut self.fabric, &change) {
            None => Ok(()),
            Some((host, change)) => {
                self.fabric.set_paused(host, change != HostChange::Thaw);
                self.poll_host(host)
            }
        }
    }

    /// Schedules the call again, but not after the end.
    fn call_again_after(&mut self, after: Duration, call: Call) {
        let next = self.fabric.now() + after;
        if next <= Instant::ZERO + self.scenario.duration {
            self.fabric.call_at(next, call.to_token());
        }
    }

    /// Adds a point to the curves.
    fn add_row(&mut self) {
        let now = self.fabric.now();
        let seconds = self.scenario.every.as_secs_f64();
        let mut rates = Vec::new();
        if !self.scenario.is_mix() {
            for (number, flow) in self.scenario.flows.iter().enumerate() {
                let link = self.network.link_of(HostId(flow.to));
                let meter = link.and_then(|(link, from)| self.fabric.meter(link, from));
                let bytes = meter.and_then(|meter| meter.wire_bytes_of.get(flow.from).copied());
                let bytes = bytes.unwrap_or(0);
                let before = std::mem::replace(&mut self.received[number], bytes);
                rates.push((bytes - before) as f64 * 8e-9 / seconds);
            }
        }
        let mut queue = Vec::new();
        let mut mean = Vec::new();
        let mut peak = Vec::new();
        for ((cable, from), before) in self.links.iter().zip(&mut self.queue_byte_ns) {
            if let Some(meter) = self.fabric.meter(*cable, *from) {
                let byte_ns = meter.queue_byte_ns(now);
                let added = byte_ns - std::mem::replace(before, byte_ns);
                mean.push(added as f64 / (seconds * 1e9));
                queue.push(meter.queue_bytes);
                peak.push(meter.take_peak());
            }
        }
        let pauses = self.fabric.counters().pauses;
        self.rows.push(Row {
            ms: now.as_nanos() as f64 / 1e6,
            rates,
            queue,
            mean,
            peak,
            pauses: pauses - self.pauses,
        });
        self.pauses = pauses;
        self.call_again_after(self.scenario.every, Call::AddRow);
    }
}
