//! Carries out a plan, and asks the oracle about everything that comes of it.

use super::end::{End, FlowMemory, Layout};
use super::memory::Region;
use super::outcome::{Outcome, label};
use super::plan::{Fault, PairPlan, Plan};
use crate::connect::connect;
use crate::fabric::{CableId, Fabric, FabricBuilder, HostId, Step, SwitchId};
use crate::oracle::{Causes, FlowAreas, Oracle, Verdict, Violation, Words, violated};
use roce_stack::{Completion, Duration, Event, Instant, PdId, Stat, WcStatus};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The words for atomics of each host: half of them count, half are swapped.
pub(super) const WORDS: usize = 8;

/// A run that takes more events than this does not come to rest.
const MAX_STEPS: u64 = 1_000_000;

/// Who is called, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    /// An end has its turn: twice the pair, plus the side.
    Pump(usize),
    /// A fault of the plan begins or ends.
    Fault(usize),
    /// A mischief of the plan.
    Mischief(usize),
    /// The mischief is over.
    Undo(usize),
    /// A pair is connected.
    Start(usize),
}

impl Token {
    pub(super) fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Pump(number) => (0, number),
            Self::Fault(number) => (1, number),
            Self::Mischief(number) => (2, number),
            Self::Undo(number) => (3, number),
            Self::Start(number) => (4, number),
        };
        kind << 32 | number as u64
    }

    fn decode(token: u64) -> Self {
        let number = (token & 0xffff_ffff) as usize;
        match token >> 32 {
            0 => Self::Pump(number),
            1 => Self::Fault(number),
            2 => Self::Mischief(number),
            3 => Self::Undo(number),
            _ => Self::Start(number),
        }
    }
}

/// Two connected ends.
#[derive(Debug)]
pub(super) struct PairState {
    pub(super) ends: [End; 2],
    /// By the side that initiates.
    pub(super) memory: [FlowMemory; 2],
}

/// A host's words, and the protection domain of everything there.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) pd: PdId,
    pub(super) region: Region,
}

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fabric: Fabric,
    pub(super) oracle: Oracle,
    pub(super) pairs: Vec<Option<PairState>>,
    /// Of each host.
    pub(super) words: Vec<HostState>,
    pub(super) paused: Vec<bool>,
    /// Hosts whose completions are to be looked at.
    pub(super) touched: Vec<HostId>,
    /// Completions that were taken just now.
    taken: Vec<Completion>,
    pub(super) outcome: Outcome,
}

/// Carries out a plan.
pub fn run(plan: &Plan) -> Outcome {
    carry_out(plan, false)
}

/// The same, showing every packet on stderr.
pub fn run_printing(plan: &Plan) -> Outcome {
    carry_out(plan, true)
}

fn carry_out(plan: &Plan, print: bool) -> Outcome {
    // A panic of the stack is a finding like others. Nothing of the run is used after.
    let caught = catch_unwind(AssertUnwindSafe(|| go_through(plan, print)));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = format!("panicked: {}", text.unwrap_or_default());
        Outcome {
            violation: Some(Violation(what)),
            ..Outcome::default()
        }
    })
}

fn go_through(plan: &Plan, print: bool) -> Outcome {
    let mut outcome = match Run::new(plan) {
        Err(violation) => Outcome {
            violation: Some(violation),
            ..Outcome::default()
        },
        Ok(mut run) => {
            if print {
                run.fabric.print();
            }
            let verdict = run.go();
            run.sum_up();
            run.outcome.violation = verdict.err();
            run.outcome
        }
    };
    if let Some(Violation(what)) = &mut outcome.violation {
        *what = format!("after {} ns: {what}", outcome.virtual_ns);
    }
    outcome
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Violation> {
        let mut builder = FabricBuilder::new();
        let hosts: Vec<HostId> = plan.hosts.iter().map(|host| builder.host(*host)).collect();
        let switches: Vec<SwitchId> = plan.switches.iter().map(|s| builder.switch(*s)).collect();
        if switches.is_empty() {
            builder.cable(hosts[0], hosts[1], plan.link);
        } else {
            for (host, switch) in hosts.iter().zip(&plan.attached) {
                builder.cable(*host, switches[*switch], plan.link);
            }
            for pair in switches.windows(2) {
                builder.cable(pair[0], pair[1], plan.link);
            }
        }
        let mut run = Self {
            plan,
            fabric: builder.build(plan.seed),
            oracle: Oracle::new(),
            pairs: Vec::new(),
            words: Vec::new(),
            paused: vec![false; hosts.len()],
            touched: Vec::new(),
            taken: Vec::new(),
            outcome: Outcome::default(),
        };
        for host in hosts {
            let nic = run.fabric.nic(host);
            let pd = nic.alloc_pd();
            let region = Region::new(nic, pd, 1000 + host.0, 8 * WORDS)?;
            let words = Words::new(Arc::clone(&region.buffer), Region::place(0), WORDS);
            run.oracle.words.push(words);
            run.words.push(HostState { pd, region });
        }
        run.pairs.resize_with(plan.pairs.len(), || None);
        Ok(run)
    }

    fn go(&mut self) -> Verdict {
        let at = Instant::from_nanos;
        for (number, pair) in self.plan.pairs.iter().enumerate() {
            self.fabric
                .call_at(at(pair.start_ns), Token::Start(number).encode());
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            self.fabric
                .call_at(at(fault.at_ns), Token::Fault(number).encode());
        }
        for (number, mischief) in self.plan.mischief.iter().enumerate() {
            self.fabric
                .call_at(at(mischief.at_ns), Token::Mischief(number).encode());
        }
        let never = at(0) + Duration::from_secs(1_000_000);
        let mut steps = 0;
        while let Some(step) = self.fabric.step(never) {
            match step {
                Step::Inside => {}
                Step::Host(host) => self.touched.push(host),
                Step::Call(token) => self.called(Token::decode(token))?,
            }
            while let Some(host) = self.touched.pop() {
                self.look_at(host)?;
            }
            steps += 1;
            if steps > MAX_STEPS {
                return violated(format!(
                    "no rest after {MAX_STEPS} events, the last one {step:?}"
                ));
            }
        }
        self.at_rest()
    }

    fn called(&mut self, token: Token) -> Verdict {
        match token {
            Token::Pump(number) => {
                let now = self.fabric.now();
                let end = self.end_mut(number / 2, number % 2);
                // Else it was called earlier since, and will be again.
                if end.called != Some(now) {
                    return Ok(());
                }
                end.called = None;
                self.pump(number / 2, number % 2)
            }
            Token::Fault(number) => {
                let fault = self.plan.faults[number];
                let cable = CableId(fault.cable);
                match fault.what {
                    Fault::Packets(spec) => self.fabric.set_faults(cable, spec),
                    Fault::Down(down) => self.fabric.set_down(cable, down),
                }
                Ok(())
            }
            Token::Mischief(number) => self.act(number),
            Token::Undo(number) => self.undo(number),
            Token::Start(number) => self.start(number),
        }
    }

    /// Connects a pair.
    fn start(&mut self, number: usize) -> Verdict {
        let plan = &self.plan.pairs[number];
        let mut end = |side: usize| {
            let host = HostId(plan.hosts[side]);
            let pd = self.words[host.0].pd;
            End::new(self.fabric.nic(host), pd, host, plan)
        };
        let ends = [end(0), end(1)];
        let names = [0, 1].map(|side: usize| (ends[side].host, ends[side].qpn));
        connect(&mut self.fabric, names, &plan.connect)
            .map_err(|error| Violation(format!("connecting pair {number}: {error}")))?;
        let memory = [self.memory(plan, number, 0)?, self.memory(plan, number, 1)?];
        let areas = [0, 1].map(|side: usize| FlowAreas {
            out: memory[side].out.area(),
            target: memory[side].target.area(),
            inbox: memory[side].inbox.area(),
        });
        let causes = Causes {
            lossy: !self.plan.lossless,
            rnr_limited: plan.connect.rnr_retry < 7,
        };
        self.oracle.connected(number, causes, areas);
        self.pairs[number] = Some(PairState { ends, memory });
        // Receives first, as applications do.
        self.pump(number, 1)?;
        self.pump(number, 0)
    }

    fn memory(
        &mut self,
        plan: &PairPlan,
        number: usize,
        side: usize,
    ) -> Result<FlowMemory, Violation> {
        let Layout {
            out_at,
            out_len,
            inbox_at,
            inbox_len,
        } = Layout::of(&plan.ops[side]);
        let mut region = |of: usize, which: usize, len: usize| {
            let host = HostId(plan.hosts[of]);
            let pd = self.words[host.0].pd;
            let name = 6 * number + 3 * side + which;
            Region::new(self.fabric.nic(host), pd, name, len)
        };
        Ok(FlowMemory {
            out: region(side, 0, out_len)?,
            target: region(1 - side, 1, plan.target_bytes)?,
            inbox: region(1 - side, 2, inbox_len)?,
            out_at,
            inbox_at,
            registered: [true; 3],
        })
    }

    /// Takes a host's completions and events, and lets its applications go on.
    pub(super) fn look_at(&mut self, host: HostId) -> Verdict {
        if self.paused[host.0] {
            return Ok(());
        }
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                let here = |state: &PairState| state.ends[side].host == host;
                if self.pairs[pair].as_ref().is_some_and(here) && self.poll(pair, side)? {
                    self.pump(pair, side)?;
                }
            }
        }
        while let Some(event) = self.fabric.nic(host).poll_event() {
            self.event(host, event)?;
        }
        Ok(())
    }

    /// Takes an end's completions. Returns whether there were any.
    pub(super) fn poll(&mut self, pair: usize, side: usize) -> Result<bool, Violation> {
        let end = self.end(pair, side);
        if end.send_cq.is_empty() && end.recv_cq.is_empty() {
            return Ok(false);
        }
        let mut taken = core::mem::take(&mut self.taken);
        let end = self.end(pair, side);
        for cq in [&end.send_cq, &end.recv_cq] {
            loop {
                match cq.poll() {
                    Ok(Some(done)) => taken.push(done),
                    Ok(None) => break,
                    Err(error) => return violated(format!("pair {pair} side {side}: {error}")),
                }
            }
        }
        // What failed in one queue is why requests in the other were flushed.
        let flushed = |status| matches!(status, WcStatus::Success | WcStatus::WorkRequestFlushed);
        if taken.iter().any(|done| !flushed(done.status)) {
            self.oracle.broke(pair, side);
        }
        for done in taken.drain(..) {
            if done.qpn != self.end(pair, side).qpn {
                return violated(format!("a completion of another QP: {done:?}"));
            }
            let name = label(done.status);
            *self.outcome.completions.entry(name).or_default() += 1;
            self.oracle.completed(pair, side, &done)?;
        }
        self.taken = taken;
        Ok(true)
    }

    fn event(&mut self, host: HostId, event: Event) -> Verdict {
        let find = |qpn| {
            (0..self.pairs.len())
                .flat_map(|pair| [(pair, 0), (pair, 1)])
                .find(|(pair, side)| {
                    self.pairs[*pair].as_ref().is_some_and(|state| {
                        let end = &state.ends[*side];
                        end.host == host && end.qpn == qpn && end.alive
                    })
                })
        };
        match event {
            Event::QpFatal(qpn, _) | Event::QpRequestError(qpn) | Event::QpAccessError(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                // Its completions came before.
                self.poll(pair, side)?;
                if self.oracle.may_be_broken(pair, side) {
                    return Ok(());
                }
                violated(format!("pair {pair} side {side}: {event:?} has no cause"))
            }
            Event::SqDrained(qpn) => {
                let Some((pair, side)) = find(qpn) else {
                    return Ok(());
                };
                if !self.end(pair, side).draining {
                    return violated(format!("pair {pair} side {side} drained unasked"));
                }
                self.oracle.drained(pair, side, true);
                Ok(())
            }
            Event::CqNotify(_) => Ok(()),
            other => violated(format!("host {}: {other:?}", host.0)),
        }
    }

    /// Nothing moves any more: everything must have come to its end, and after all is
    /// taken down, nothing may be left.
    fn at_rest(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                self.poll(pair, side)?;
                let end = self.end(pair, side);
                let left = self.plan.pairs[pair].ops[side].len() - end.next_op;
                if end.alive && left > 0 {
                    return violated(format!(
                        "pair {pair} side {side}, at rest: {left} requests could not be posted"
                    ));
                }
            }
        }
        let (pairs, fabric) = (&self.pairs, &mut self.fabric);
        let mut queued = Vec::new();
        for state in pairs.iter().flatten() {
            queued.push([0, 1].map(|side: usize| {
                let end = &state.ends[side];
                let queued = fabric.nic(end.host).queued(end.qpn);
                queued.filter(|_| end.alive)
            }));
        }
        self.oracle.at_rest(|pair, side| queued[pair][side])?;
        let under_way = self.fabric.under_way();
        if under_way != (0, 0) {
            return violated(format!(
                "at rest, but packets and bytes wait: {under_way:?}"
            ));
        }
        self.take_down()
    }

    /// Destroys everything and looks whether anything is left.
    fn take_down(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            for side in [0, 1] {
                self.destroy(pair, side)?;
                for area in 0..3 {
                    self.deregister(pair, side, area)?;
                }
            }
        }
        let later = self.fabric.now() + Duration::from_secs(1_000_000);
        for host in 0..self.words.len() {
            let key = self.words[host].region.key;
            self.fabric.drive(HostId(host));
            let nic = self.fabric.nic(HostId(host));
            nic.deregister(key);
            nic.handle_timeouts(later);
            while nic.poll_event().is_some() {}
            let usage = nic.usage();
            if usage != roce_stack::Usage::default() || nic.wants_to_send() {
                return violated(format!("host {host} still holds {usage:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn sum_up(&mut self) {
        self.outcome.fingerprint = self.fabric.fingerprint();
        self.outcome.packets = self.fabric.counters();
        self.outcome.virtual_ns = self.fabric.now().as_nanos();
        for host in 0..self.fabric.hosts() {
            let counters = self.fabric.nic(HostId(host)).counters();
            self.outcome.retransmitted += counters.stat(Stat::Retransmitted);
            self.outcome.dropped_by_nics += counters.total_drops();
        }
    }
}
