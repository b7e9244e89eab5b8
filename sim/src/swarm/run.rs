//! Carries out a plan, and asks the oracle about everything that comes of it.

use super::cqs::CqState;
use super::end::{End, FlowMemory};
use super::memory::Region;
use super::outcome::Outcome;
use super::plan::{Fault, Plan};
use super::pools::PoolState;
use super::xrc::Domain;
use crate::fabric::{CableId, Fabric, FabricBuilder, HostId, Step, SwitchId};
use crate::oracle::{Oracle, Verdict, Violation, Words, violated};
use roce_stack::{Completion, CompletionQueue, Duration, Instant, PdId};
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
    /// A pool wants receives.
    Refill(usize),
    /// Completions of a CQ are taken.
    Take(usize),
}

impl Token {
    pub(super) fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Pump(number) => (0, number),
            Self::Fault(number) => (1, number),
            Self::Mischief(number) => (2, number),
            Self::Undo(number) => (3, number),
            Self::Start(number) => (4, number),
            Self::Refill(number) => (5, number),
            Self::Take(number) => (6, number),
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
            4 => Self::Start(number),
            5 => Self::Refill(number),
            _ => Self::Take(number),
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
    pub(super) pools: Vec<PoolState>,
    /// All that were ever made, by their numbers.
    pub(super) cqs: Vec<CqState>,
    /// The CQ of each host that some of its ends share.
    pub(super) host_cqs: Vec<Option<Arc<CompletionQueue>>>,
    /// The pool of each host's shared receive queue.
    pub(super) srqs: Vec<Option<usize>>,
    /// The XRC domain of each host.
    pub(super) domains: Vec<Option<Domain>>,
    /// Hosts whose completions are to be looked at.
    pub(super) touched: Vec<HostId>,
    /// Completions that were taken just now.
    pub(super) taken: Vec<Completion>,
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
            pools: Vec::new(),
            cqs: Vec::new(),
            host_cqs: Vec::new(),
            srqs: Vec::new(),
            domains: Vec::new(),
            touched: Vec::new(),
            taken: Vec::new(),
            outcome: Outcome::default(),
        };
        for &host in &hosts {
            let nic = run.fabric.nic(host);
            let pd = nic.alloc_pd();
            let region = Region::new(nic, pd, 1000 + host.0, 8 * WORDS)?;
            let words = Words::new(Arc::clone(&region.buffer), Region::place(0), WORDS);
            run.oracle.words.push(words);
            run.words.push(HostState { pd, region });
        }
        for host in hosts {
            let srq = run.make_srq(host)?;
            run.srqs.push(srq);
            let domain = run.make_domain(host)?;
            run.domains.push(domain);
            run.host_cqs.push(None);
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
            Token::Refill(number) => self.refill_called(number),
            Token::Take(number) => self.take_called(number),
        }
    }
}
