//! Carries out a plan, and checks the run with the oracle.

use super::memory::Region;
use super::outcome::Outcome;
use super::plan::{CableFault, Plan};
use super::state::{Groups, HostState, Run, Token, WORDS};
use crate::fabric::{CableId, FabricBuilder, HostId, Step, SwitchId};
use crate::oracle::{Oracle, Verdict, Violation, Words, violated};
use roce_stack::{Duration, Instant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The maximum number of events of a run. A run with more counts as endless.
const MAX_STEPS: u64 = 1_000_000;

/// Carries out a plan.
pub fn run(plan: &Plan) -> Outcome {
    run_catching_panics(plan, false)
}

/// Carries out a plan, and prints every packet on stderr.
pub fn run_printing(plan: &Plan) -> Outcome {
    run_catching_panics(plan, true)
}

fn run_catching_panics(plan: &Plan, print: bool) -> Outcome {
    // A panic of the stack is a violation. No state of the run is used after a panic.
    let caught = catch_unwind(AssertUnwindSafe(|| run_to_outcome(plan, print)));
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

fn run_to_outcome(plan: &Plan, print: bool) -> Outcome {
    let mut outcome = match Run::new(plan) {
        Err(violation) => Outcome {
            violation: Some(violation),
            ..Outcome::default()
        },
        Ok(mut run) => {
            if print {
                run.fabric.print_packets();
            }
            let verdict = run.run_all_events();
            run.collect_counters();
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
            calls: Vec::new(),
            oracle: Oracle::new(),
            pairs: Vec::new(),
            hosts: Vec::new(),
            paused: vec![false; hosts.len()],
            pools: Vec::new(),
            cqs: Vec::new(),
            host_cqs: Vec::new(),
            srqs: Vec::new(),
            domains: Vec::new(),
            managers: Vec::new(),
            groups: Groups::default(),
            hosts_to_poll: Vec::new(),
            completion_buffer: Vec::new(),
            outcome: Outcome::default(),
        };
        for &host in &hosts {
            run.configure(host);
            let nic = run.fabric.nic(host);
            let pd = nic.alloc_pd();
            let on_demand = plan.on_demand_words.get(host.0) == Some(&true);
            let region = Region::new(nic, pd, 1000 + host.0, 8 * WORDS, on_demand)?;
            let words = Words::new(Arc::clone(&region.buffer), Region::buffer_offset(0), WORDS);
            run.oracle.words.push(words);
            run.hosts.push(HostState {
                pd,
                region,
                other_pd: None,
            });
        }
        for host in hosts {
            let srq = run.make_srq(host)?;
            run.srqs.push(srq);
            let domain = run.make_domain(host)?;
            run.domains.push(domain);
            run.host_cqs.push(None);
            let manager = run.make_manager(host)?;
            run.managers.push(manager);
        }
        run.make_groups()?;
        run.pairs.resize_with(plan.pairs.len(), || None);
        Ok(run)
    }

    fn run_all_events(&mut self) -> Verdict {
        let at = Instant::from_nanos;
        for (number, pair) in self.plan.pairs.iter().enumerate() {
            self.call_at(at(pair.start_ns), Token::Start(number));
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            self.call_at(at(fault.at_ns), Token::CableFault(number));
        }
        for (number, disruption) in self.plan.disruptions.iter().enumerate() {
            self.call_at(at(disruption.at_ns), Token::Disruption(number));
        }
        let never = at(0) + Duration::from_secs(1_000_000);
        let mut steps = 0;
        while let Some(step) = self.fabric.step(never) {
            match step {
                Step::Internal => {}
                Step::Host(host) => self.hosts_to_poll.push(host),
                Step::Call(token) => self.handle_call(self.calls[token as usize])?,
            }
            while let Some(host) = self.hosts_to_poll.pop() {
                self.poll_host(host)?;
            }
            steps += 1;
            if steps > MAX_STEPS {
                return violated(format!(
                    "not finished after {MAX_STEPS} events, the last one {step:?}"
                ));
            }
        }
        self.check_end()
    }

    /// Lets a host send, and then its applications see what has completed.
    pub(super) fn drive(&mut self, host: HostId) {
        self.fabric.drive(host);
        self.hosts_to_poll.push(host);
    }

    fn handle_call(&mut self, token: Token) -> Verdict {
        match token {
            Token::Post(number) => {
                let now = self.fabric.now();
                let end = self.end_mut(number / 2, number % 2);
                // An earlier call has replaced this one.
                if end.next_call != Some(now) {
                    return Ok(());
                }
                end.next_call = None;
                self.post_requests(number / 2, number % 2)
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
            Token::Disruption(number) => self.disrupt(number),
            Token::EndDisruption(number) => self.end_disruption(number),
            Token::Start(number) => self.start(number),
            Token::Refill(number) => self.refill_scheduled(number),
            Token::PollCq(number) => self.poll_postponed(number),
            Token::JoinGroup(name) => self.join_group(name),
            Token::LeaveGroup(name) => self.leave_group(name),
            Token::SendDatagrams(number) => self.send_datagrams(number),
            Token::Manager(host) => self.manager_called(HostId(host)),
            Token::PostMemberReceives(number) => self.post_member_receives(number),
        }
    }
}
