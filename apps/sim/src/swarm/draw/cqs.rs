//! The third layer of a plan: unusual CQs. It has random numbers of its own.

use crate::dice::Dice;
use crate::swarm::plan::{Action, CqPlan, Disruption, Plan};

/// Adds the third layer to a plan.
pub(super) fn draw_cqs(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6d6f_7374);
    let mut cqs = dice.split();
    if cqs.one_in(4) {
        restrict_cqs(&mut cqs, plan);
    }
}

/// Makes some CQs small, shared by many QPs, or polled late, or resizes them.
fn restrict_cqs(dice: &mut Dice, plan: &mut Plan) {
    let poll_delay = dice.pick(&[0, 0, 3_000, 100_000]);
    let shares = dice.one_in(2);
    plan.cqs = (0..plan.hosts.len())
        .map(|_| (shares && dice.one_in(2)).then(|| cq(dice, &[2, 40, 300, 2000], poll_delay)))
        .collect();
    if dice.one_in(3) {
        plan.xrc_cq.entries = Some(dice.pick(&[1, 8, 200]));
    }
    for (number, pair) in plan.pairs.iter_mut().enumerate() {
        for side in [0, 1] {
            let host = plan.cqs[pair.hosts[side]];
            pair.in_host_cq[side] = host.is_some() && dice.one_in(2);
            if dice.one_in(2) {
                // An application should request as many entries as both queues hold.
                let both = 2 * pair.depth;
                pair.cqs[side] = cq(dice, &[both, both, pair.depth, 1, 5], poll_delay);
            }
            if dice.one_in(6) {
                let entries = dice.pick(&[1, 4, 2 * pair.depth, 500]);
                plan.disruptions.push(Disruption {
                    at_ns: dice.below(1_000_000) / dice.pick(&[1, 10]),
                    what: Action::ResizeCq(number, side, entries),
                });
            }
        }
    }
}

fn cq(dice: &mut Dice, sizes: &[usize], poll_delay_ns: u64) -> CqPlan {
    CqPlan {
        entries: Some(dice.pick(sizes)),
        poll_delay_ns,
        notify: None,
    }
}
