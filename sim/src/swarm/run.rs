//! Carries out a plan, and checks everything with the oracle.

use super::memory::Region;
use super::outcome::Outcome;
use super::plan::{CableFault, Plan};
use super::state::{HostState, Run, Token, WORDS};
use crate::fabric::{CableId, FabricBuilder, HostId, Step, SwitchId};
use crate::oracle::{Oracle, Verdict, Violation, Words, violated};
use roce_stack::{Duration, Instant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The most events of a run before it counts as endless.
const MAX_STEPS: u64 = 1_000_000;

/// Carries out a plan.
pub fn run(plan: &Plan) -> Outcome {
    carry_out(plan, false)
}

/// The same, printing every packet on stderr.
pub fn run_printing(plan: &Plan) -> Outcome {
    carry_out(plan, true)
}

fn carry_out(plan: &Plan, print: bool) -> Outcome {
    // A panic of the stack is a finding like others. Nothing of the run is used afterwards.
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
                .call_at(at(fault.at_ns), Token::CableFault(number).encode());
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
                // The call was replaced by an earlier one.
                if end.called != Some(now) {
                    return Ok(());
                }
                end.called = None;
                self.pump(number / 2, number % 2)
            }
            Token::CableFault(number) => {
                let fault = self.plan.faults[number];
                let cable = CableId(fault.cable);
                match fault.what {
                    CableFault::Packets(spec) => self.fabric.set_faults(cable, spec),
                    CableFault::Down(down) => self.fabric.set_down(cable, down),
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
