//! Runs an experiment.

use super::error::RunError;
use super::flow::{Flow, Side, of_request};
use super::marks::{Mark, marks_of, measured_from};
use super::outcome::{Outcome, Row};
use super::scenario::Scenario;
use super::topology::Link;
use crate::fabric::{Fabric, HostId, Step};
use roce_stack::{Duration, Instant};

/// Time between two samples of the queues.
const LOOK_EVERY: Duration = Duration::from_micros(5);

/// The time that the flows of a mix get to finish, including local ACK timeouts.
const PATIENCE: Duration = Duration::from_secs(2);

/// The purpose of a requested call.
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

/// Runs an experiment. After each point of the curves it calls `progress` with the virtual time
/// since the last call.
///
/// # Errors
/// If a request fails, which means that something is wrong with the stack.
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

pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) fabric: Fabric,
    sides: Vec<Side>,
    pub(super) flows: Vec<Flow>,
    /// The number of a mix's unfinished flows.
    left: usize,
    pub(super) links: Vec<Link>,
    pub(super) marks: Vec<Mark>,
    pub(super) rows: Vec<Row>,
    /// The bytes that each flow's receiver had at the last row.
    received: Vec<u64>,
    pauses: u64,
    /// The queue lengths of the links, for each sample in the second half.
    pub(super) looks: Vec<u32>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, RunError> {
        let mut fabric = scenario.build(seed);
        let control = scenario.control();
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

    /// Schedules the call again, but not after the end.
    fn again(&mut self, after: Duration, call: Call) {
        let next = self.fabric.now() + after;
        if next <= Instant::ZERO + self.scenario.duration {
            self.fabric.call_at(next, call.token());
        }
    }

    /// Adds a point to the curves.
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
}
