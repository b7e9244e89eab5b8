//! The third layer, again with random numbers of its own.

use super::plan::{Act, CqPlan, Mischief, Plan};
use crate::dice::Dice;

/// Adds to a plan from [`super::draw_more`].
pub(super) fn draw_most(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6d6f_7374);
    let mut cqs = dice.split();
    if cqs.one_in(4) {
        draw_cqs(&mut cqs, plan);
    }
}

/// CQs that are small, shared by many QPs, or polled late.
fn draw_cqs(dice: &mut Dice, plan: &mut Plan) {
    let lazy = dice.pick(&[0, 0, 3_000, 100_000]);
    let shares = dice.one_in(2);
    plan.cqs = (0..plan.hosts.len())
        .map(|_| (shares && dice.one_in(2)).then(|| cq(dice, &[2, 40, 300, 2000], lazy)))
        .collect();
    if dice.one_in(3) {
        plan.xrc_cq.room = Some(dice.pick(&[1, 8, 200]));
    }
    for (number, pair) in plan.pairs.iter_mut().enumerate() {
        for side in [0, 1] {
            let host = plan.cqs[pair.hosts[side]];
            pair.in_host_cq[side] = host.is_some() && dice.one_in(2);
            if dice.one_in(2) {
                // Applications should ask for as many entries as both queues hold.
                let both = 2 * pair.depth;
                pair.cqs[side] = cq(dice, &[both, both, pair.depth, 1, 5], lazy);
            }
            if dice.one_in(6) {
                let room = dice.pick(&[1, 4, 2 * pair.depth, 500]);
                plan.mischief.push(Mischief {
                    at_ns: dice.below(1_000_000) / dice.pick(&[1, 10]),
                    what: Act::ResizeCq(number, side, room),
                });
            }
        }
    }
}

fn cq(dice: &mut Dice, rooms: &[usize], lazy_ns: u64) -> CqPlan {
    CqPlan {
        room: Some(dice.pick(rooms)),
        lazy_ns,
    }
}
