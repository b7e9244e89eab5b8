//! The tenth layer of a plan: connections made and ended by messages of the connection manager.

use super::base::HORIZON_NS;
use crate::dice::Dice;
use crate::swarm::plan::{Action, Disruption, Plan};
use roce_stack::QpKind;

/// Adds the tenth layer to a plan.
pub(super) fn draw_cm(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x636f_6e6e);
    // The QP of a connection that is made again must have the same number as before.
    let repeats = plan.pairs.iter().any(|pair| pair.follows.is_some());
    if !dice.one_in(4) || repeats {
        return;
    }
    plan.cm_retries = dice.pick(&[1, 15, 15]);
    for (number, pair) in plan.pairs.iter_mut().enumerate() {
        pair.managed = pair.connect.kind == QpKind::Rc && !dice.one_in(4);
        if pair.managed && dice.one_in(3) {
            plan.disruptions.push(Disruption {
                at_ns: pair.start_ns + dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]),
                what: Action::Disconnect(number, dice.index(2)),
            });
        }
    }
}
