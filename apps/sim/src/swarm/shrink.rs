//! Reduces a failing plan to the parts that it needs to fail.

use super::plan::{CableFault, CqPlan, MulticastPlan, PairPlan, Plan};
use super::run::run;
use crate::connect::ConnectSpec;
use crate::oracle::Violation;
use roce_faults::{Chance, FaultSpec};

/// A reduced plan, and its failure.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: Plan,
    /// The violation.
    pub violation: Violation,
    /// The number of runs used.
    pub runs: usize,
}

/// Reduces a failing plan, in at most `max_runs` runs; `None` if it does not fail.
pub fn shrink(plan: &Plan, max_runs: usize) -> Option<Shrunk> {
    let violation = run(plan).violation?;
    let mut shrunk = Shrunk {
        plan: plan.clone(),
        violation,
        runs: 1,
    };
    loop {
        let before = size(&shrunk.plan);
        shrunk.try_all_reductions(max_runs);
        if size(&shrunk.plan) == before || shrunk.runs >= max_runs {
            return Some(shrunk);
        }
    }
}

/// A measure of a plan's size.
fn size(plan: &Plan) -> usize {
    let ops: usize = plan
        .pairs
        .iter()
        .flat_map(|pair| &pair.ops)
        .map(Vec::len)
        .sum();
    let kinds: usize = plan
        .faults
        .iter()
        .map(|fault| kinds_of_fault(&fault.what))
        .sum();
    let windows: usize = plan
        .pairs
        .iter()
        .flat_map(|pair| &pair.windows)
        .map(Vec::len)
        .sum();
    special_cqs(plan)
        + special_paths(plan)
        + multicast(plan)
        + on_demand(plan)
        + plan.pairs.iter().filter(|pair| pair.managed).count()
        + windows
        + ops
        + kinds
        + plan.faults.len()
        + plan.disruptions.len()
        + plan.switches.len()
}

fn kinds_of_fault(fault: &CableFault) -> usize {
    let CableFault::Packets(spec) = fault else {
        return 1;
    };
    let chances = [spec.loss, spec.duplicate, spec.reorder, spec.corrupt];
    let some = chances.iter().filter(|chance| !chance.is_never()).count();
    some + usize::from(spec.burst.is_some()) + usize::from(!spec.jitter.is_zero())
}

impl Shrunk {
    fn try_all_reductions(&mut self, max_runs: usize) {
        let before = self.plan.clone();
        let mut attempt = |change: &dyn Fn(&mut Plan) -> bool| -> bool {
            if self.runs >= max_runs {
                return false;
            }
            let mut smaller = self.plan.clone();
            if !change(&mut smaller) {
                return false;
            }
            self.runs += 1;
            match run(&smaller).violation {
                Some(violation) => {
                    self.plan = smaller;
                    self.violation = violation;
                    true
                }
                None => false,
            }
        };
        // Pairs keep their numbers, so their requests are removed instead.
        for pair in 0..before.pairs.len() {
            attempt(&|plan| plan.pairs.get_mut(pair).is_some_and(remove_requests));
        }
        for pair in 0..before.pairs.len() {
            for side in [0, 1] {
                attempt(&|plan| {
                    let windows = plan.pairs.get_mut(pair).map(|pair| &mut pair.windows[side]);
                    windows.is_some_and(|windows| !core::mem::take(windows).is_empty())
                });
            }
        }
        attempt(&enlarge_cqs);
        attempt(&simplify_paths);
        attempt(&remove_multicast);
        attempt(&remove_on_demand);
        attempt(&remove_managers);
        let groups = &before.multicast;
        remove_pieces(&mut attempt, groups.senders.len(), |plan| {
            Some(&mut plan.multicast.senders)
        });
        remove_pieces(&mut attempt, groups.members.len(), |plan| {
            Some(&mut plan.multicast.members)
        });
        for (sender, plan) in groups.senders.iter().enumerate() {
            remove_pieces(&mut attempt, plan.datagrams.len(), |plan| {
                let sender = plan.multicast.senders.get_mut(sender);
                sender.map(|sender| &mut sender.datagrams)
            });
        }
        for (member, plan) in groups.members.iter().enumerate() {
            remove_pieces(&mut attempt, plan.memberships.len(), |plan| {
                let member = plan.multicast.members.get_mut(member);
                member.map(|member| &mut member.memberships)
            });
        }
        remove_pieces(&mut attempt, before.disruptions.len(), |plan| {
            Some(&mut plan.disruptions)
        });
        remove_pieces(&mut attempt, before.faults.len(), |plan| {
            Some(&mut plan.faults)
        });
        for (pair, plan) in before.pairs.iter().enumerate() {
            for side in [0, 1] {
                remove_pieces(&mut attempt, plan.ops[side].len(), |plan| {
                    plan.pairs.get_mut(pair).map(|pair| &mut pair.ops[side])
                });
            }
        }
        for fault in 0..before.faults.len() {
            for kind in 0..6 {
                attempt(&|plan| weaken(plan, fault, kind));
            }
        }
        attempt(&|plan| {
            let direct = plan.hosts.len() == 2 && !plan.switches.is_empty();
            if direct {
                plan.switches.clear();
                plan.faults.retain(|fault| fault.cable == 0);
            }
            direct
        });
    }
}

fn remove_requests(pair: &mut PairPlan) -> bool {
    let had_requests = pair.ops.iter().any(|ops| !ops.is_empty());
    pair.ops = [Vec::new(), Vec::new()];
    had_requests
}

/// Makes all CQs large enough, and unshared.
fn enlarge_cqs(plan: &mut Plan) -> bool {
    let had_special = special_cqs(plan) > 0;
    plan.cqs.clear();
    plan.xrc_cq = CqPlan::default();
    for pair in &mut plan.pairs {
        pair.cqs = [CqPlan::default(); 2];
        pair.in_host_cq = [false; 2];
    }
    had_special
}

/// The number of CQs with parameters other than the default.
fn special_cqs(plan: &Plan) -> usize {
    let own = plan.pairs.iter().flat_map(|pair| &pair.cqs);
    let all = own.chain(plan.cqs.iter().flatten()).chain([&plan.xrc_cq]);
    all.filter(|cq| **cq != CqPlan::default()).count()
}

/// The number of path attributes other than the default: versions, limits and congestion settings.
fn special_paths(plan: &Plan) -> usize {
    let default = ConnectSpec::default();
    let of_pair = |pair: &PairPlan| {
        let connect = &pair.connect;
        usize::from(connect.version != default.version)
            + usize::from(connect.rate_limit != default.rate_limit)
            + usize::from(connect.static_rate != default.static_rate)
            + usize::from(connect.traffic_class != default.traffic_class)
    };
    plan.congestion.len() + plan.pairs.iter().map(of_pair).sum::<usize>()
}

/// Gives all paths the default attributes.
fn simplify_paths(plan: &mut Plan) -> bool {
    let had_special = special_paths(plan) > 0;
    plan.congestion.clear();
    for pair in &mut plan.pairs {
        let default = ConnectSpec::default();
        pair.connect.version = default.version;
        pair.connect.rate_limit = default.rate_limit;
        pair.connect.static_rate = default.static_rate;
        pair.connect.traffic_class = default.traffic_class;
    }
    had_special
}

/// The number of QPs, memberships and datagrams of multicast groups.
fn multicast(plan: &Plan) -> usize {
    let MulticastPlan { members, senders } = &plan.multicast;
    let memberships = members.iter().map(|member| 1 + member.memberships.len());
    let datagrams = senders.iter().map(|sender| 1 + sender.datagrams.len());
    memberships.chain(datagrams).sum()
}

fn remove_multicast(plan: &mut Plan) -> bool {
    let had_some = multicast(plan) > 0;
    plan.multicast = MulticastPlan::default();
    had_some
}

/// The number of on-demand regions.
fn on_demand(plan: &Plan) -> usize {
    let of_pairs = plan.pairs.iter().flat_map(|pair| pair.on_demand);
    let all = of_pairs
        .flatten()
        .chain(plan.on_demand_words.iter().copied());
    all.filter(|on_demand| *on_demand).count()
}

fn remove_on_demand(plan: &mut Plan) -> bool {
    let had_some = on_demand(plan) > 0;
    plan.on_demand_words.clear();
    for pair in &mut plan.pairs {
        pair.on_demand = [[false; 3]; 2];
    }
    had_some
}

/// Connects all pairs without the connection manager.
fn remove_managers(plan: &mut Plan) -> bool {
    let had_some = plan.pairs.iter().any(|pair| pair.managed);
    for pair in &mut plan.pairs {
        pair.managed = false;
    }
    had_some
}

type Attempt<'a> = dyn FnMut(&dyn Fn(&mut Plan) -> bool) -> bool + 'a;

/// Removes elements of a list, in large pieces first, then in smaller ones.
fn remove_pieces<T>(
    attempt: &mut Attempt<'_>,
    len: usize,
    list: impl Fn(&mut Plan) -> Option<&mut Vec<T>>,
) {
    let mut piece = len.next_power_of_two();
    while piece > 0 {
        let mut from = 0;
        while from < len {
            let removed = attempt(&|plan| {
                let Some(all) = list(plan).filter(|all| from < all.len()) else {
                    return false;
                };
                let to = (from + piece).min(all.len());
                all.drain(from..to);
                true
            });
            if !removed {
                from += piece;
            }
        }
        piece /= 2;
    }
}

/// Removes one kind of fault from a fault specification.
fn weaken(plan: &mut Plan, fault: usize, kind: usize) -> bool {
    let Some(CableFault::Packets(spec)) = plan.faults.get_mut(fault).map(|fault| &mut fault.what)
    else {
        return false;
    };
    let before = *spec;
    let FaultSpec {
        loss,
        burst,
        duplicate,
        reorder,
        corrupt,
        delay,
        jitter,
        ..
    } = spec;
    match kind {
        0 => *loss = Chance::NEVER,
        1 => *burst = None,
        2 => *duplicate = Chance::NEVER,
        3 => *reorder = Chance::NEVER,
        4 => *corrupt = Chance::NEVER,
        _ => (*delay, *jitter) = Default::default(),
    }
    *spec != before
}
