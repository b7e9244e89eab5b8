//! The fifth layer of a plan: ports that keep the memory of sent packets.

use crate::dice::Dice;
use crate::swarm::plan::Plan;

/// Adds to a plan from [`super::restart`].
pub(super) fn draw_memory(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6b65_6570);
    for host in &mut plan.hosts {
        host.keeps = dice.one_in(2);
    }
}
