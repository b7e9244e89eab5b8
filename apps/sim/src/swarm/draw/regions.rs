//! The eighth layer of a plan: on-demand regions, and regions that are registered again.

use super::base::HORIZON_NS;
use crate::dice::Dice;
use crate::swarm::plan::{Action, Change, Disruption, Kind, PairPlan, Plan};
use roce_stack::{Access, QpKind};

/// Adds the eighth layer to a plan.
pub(super) fn draw_regions(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x7061_6765);
    let (mut pages, mut changes) = (dice.split(), dice.split());
    if pages.one_in(4) {
        draw_pages(&mut pages, plan);
    }
    // After a restart, old packets meet regions with the same keys.
    let repeats = plan.pairs.iter().any(|pair| pair.follows.is_some());
    if changes.one_in(4) && !repeats {
        draw_changes(&mut changes, plan);
    }
}

/// Makes some regions on demand, and unmaps some of them.
fn draw_pages(dice: &mut Dice, plan: &mut Plan) {
    plan.on_demand_words = (0..plan.hosts.len()).map(|_| dice.one_in(2)).collect();
    for number in 0..plan.pairs.len() {
        for side in [0, 1] {
            let on_demand = [0; 3].map(|_| dice.one_in(2));
            plan.pairs[number].on_demand[side] = on_demand;
            if dice.one_in(8) {
                plan.disruptions.push(Disruption {
                    at_ns: dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]),
                    what: Action::Unmap(number, side, dice.index(3)),
                });
            }
        }
    }
}

/// Registers targets again while requests use them.
fn draw_changes(dice: &mut Dice, plan: &mut Plan) {
    for number in 0..plan.pairs.len() {
        let pair = &mut plan.pairs[number];
        if pair.connect.kind != QpKind::Rc || has_key_requests(pair) {
            continue;
        }
        for side in [0, 1] {
            let changes = dice.pick(&[0, 1, 2, 4]);
            if changes == 0 {
                continue;
            }
            for op in &mut pair.ops[side] {
                if op.kind == Kind::SendInvalidate {
                    op.kind = Kind::Send;
                    op.fault = None;
                }
            }
            let within = HORIZON_NS / dice.pick(&[3, 10, 100]);
            for _ in 0..changes {
                let what = Action::Reregister(number, side, change(dice));
                let at_ns = pair.start_ns + dice.below(within);
                plan.disruptions.push(Disruption { at_ns, what });
            }
        }
    }
}

/// Whether windows or regions of the pair are bound or invalidated by requests of their owner.
fn has_key_requests(pair: &PairPlan) -> bool {
    let mut ops = pair.ops.iter().flatten();
    ops.any(|op| op.kind.is_local()) || pair.windows.iter().any(|windows| !windows.is_empty())
}

fn change(dice: &mut Dice) -> Change {
    let base = Access::LOCAL_WRITE | Access::MW_BIND | Access::REMOTE_INVALIDATE;
    let (reads, writes) = (Access::REMOTE_READ, Access::REMOTE_WRITE);
    let flushes = Access::FLUSH_GLOBAL;
    match dice.below(9) {
        0 => Change::Access(base | reads | writes | flushes),
        1 => Change::Access(base | writes | flushes),
        2 => Change::Access(base | reads),
        3 => Change::Access(dice.pick(&[base, Access::empty(), reads])),
        4 => Change::Invalid,
        5 => Change::OtherPd,
        6 => Change::OwnPd,
        _ => Change::Memory {
            shift: dice.one_in(2),
        },
    }
}
