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
                run.call(token)?;
                if matches!(run.calls[token as usize], Call::AddRow) {
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
    /// The calls that the fabric makes, by token.
    calls: Vec<Call>,
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
        let mut calls = Vec::new();
        let mut call_at = |at, call| {
            fabric.call_at(at, calls.len() as u64);
            calls.push(call);
        };
        for (number, flow) in scenario.flows.iter().enumerate() {
            call_at(Instant::ZERO + flow.start, Call::Start(number));
            if let Some(stop) = flow.stop {
                call_at(Instant::ZERO + stop, Call::Stop(number));
            }
        }
        for (number, event) in network.events.iter().enumerate() {
            call_at(Instant::ZERO + event.at, Call::Change(number));
        }
        for at in snapshot_times(scenario) {
            call_at(at, Call::TakeSnapshot);
        }
        call_at(Instant::ZERO + scenario.every, Call::AddRow);
        call_at(
            Instant::ZERO + measurement_start(scenario),
            Call::SampleQueues,
        );
        Ok(Self {
            scenario,
            fabric,
            calls,
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

    fn call(&mut self, token: u64) -> Result<(), RunError> {
        match self.calls[token as usize] {
            Call::SampleQueues => {
                for (cable, from) in &self.links {
                    let meter = self.fabric.meter(*cable, *from);
                    let bytes = meter.map_or(0, |meter| meter.queue_bytes);
                    self.queue_samples
                        .push(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
                self.call_again_after(QUEUE_SAMPLE_INTERVAL, token);
            }
            Call::AddRow => {
                self.add_row();
                self.call_again_after(self.scenario.every, token);
            }
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
    fn call_again_after(&mut self, after: Duration, token: u64) {
        let next = self.fabric.now() + after;
        if next <= Instant::ZERO + self.scenario.duration {
            self.fabric.call_at(next, token);
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
    }
}
