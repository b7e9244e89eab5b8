//! The ninth layer of a plan: applications that wait for the events of CQs.

use crate::dice::Dice;
use crate::swarm::plan::Plan;
use roce_stack::Notify;

/// Adds the ninth layer to a plan.
pub(super) fn draw_events(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6576_6e74);
    if !dice.one_in(4) {
        return;
    }
    let own = plan.pairs.iter_mut().flat_map(|pair| &mut pair.cqs);
    for cq in own.chain(plan.cqs.iter_mut().flatten()) {
        cq.notify = dice.pick(&[
            None,
            Some(Notify::Next),
            Some(Notify::Next),
            Some(Notify::Solicited),
        ]);
        if cq.notify == Some(Notify::Next) {
            cq.poll_delay_ns = 0;
        }
    }
}
