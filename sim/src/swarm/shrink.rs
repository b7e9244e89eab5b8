//! Reduces a failing plan to the parts that it needs to fail.

use super::plan::{CableFault, CqPlan, Plan};
use super::run::run;
use crate::oracle::Violation;
use roce_port::fault::{Chance, FaultSpec};

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

fn remove_requests(pair: &mut super::plan::PairPlan) -> bool {
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
