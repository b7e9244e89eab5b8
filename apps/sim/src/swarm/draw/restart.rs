//! The fourth layer of a plan: a host restarts with a NIC that assigns the same QP numbers and keys
//! as the last one, and a connection is made again while its old packets are still in flight. And
//! the fifth: ports keep the memory of packets that they have sent.

use crate::dice::Dice;
use crate::swarm::plan::{Action, Disruption, PairPlan, Plan};
use roce_stack::QpKind;

/// Adds the fourth layer to a plan.
pub(super) fn draw_restart(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6c69_7665);
    // Without loss, hosts are never restarted.
    if plan.lossless || !dice.one_in(5) {
        return;
    }
    let host = dice.index(plan.hosts.len());
    let Some(first) = first_pair(plan, host) else {
        return;
    };
    let before = &plan.pairs[first];
    let lifetime_ns = match dice.below(3) {
        0 => dice.below(5_000),
        1 => dice.below(50_000),
        _ => dice.below(1_000_000),
    };
    let at_ns = before.start_ns + lifetime_ns;
    // A pair of this host that starts after the restart would get the QP numbers instead, and
    // perhaps the PSNs.
    let later = |pair: &PairPlan| pair.hosts.contains(&host) && pair.start_ns > at_ns;
    if plan.pairs.iter().any(later) {
        return;
    }
    let mut second = before.clone();
    second.follows = Some(first);
    second.start_ns = at_ns + dice.pick(&[1, 1, 500, 20_000]);
    shift_psns(&mut dice, &mut second);
    if dice.one_in(2) {
        // One end has other requests after the restart.
        second.ops[dice.index(2)].truncate(1);
    }
    plan.pairs.push(second);
    let what = Action::RestartWithSameSeed(host);
    plan.disruptions.push(Disruption { at_ns, what });
}

/// The connection whose QP is the first that the host makes, if that is an RC QP. Nothing protects
/// UC from packets that were sent before the restart, and only another Q_Key protects UD.
fn first_pair(plan: &Plan, host: usize) -> Option<usize> {
    let here = |number: &usize| plan.pairs[*number].hosts.contains(&host);
    let first = (0..plan.pairs.len())
        .filter(here)
        .min_by_key(|number| plan.pairs[*number].start_ns)?;
    let pair = &plan.pairs[first];
    // An SRQ's number is drawn from the same random numbers as QPNs, and the SRQ is not made again:
    // the QPs would get other numbers.
    let shares = |pair: &PairPlan| {
        let side = usize::from(pair.hosts[1] == host);
        let there = pair.hosts.contains(&host);
        there && (pair.shared[side] || pair.connect.kind.is_xrc() && side == 1)
    };
    let fits = pair.connect.kind == QpKind::Rc && !plan.pairs.iter().any(shares);
    fits.then_some(first)
}

/// Shifts the PSNs of a connection that is made again, so that no old packet has an expected PSN.
/// The shift is up to a quarter of the PSN space, forwards or backwards.
fn shift_psns(dice: &mut Dice, pair: &mut PairPlan) {
    let shift = (1 << 20) + dice.below(3 << 20) as u32;
    let by = if dice.one_in(2) {
        shift
    } else {
        0x100_0000 - shift
    };
    for psn in &mut pair.connect.psn {
        *psn = (*psn + by) & 0xff_ffff;
    }
}

/// Adds the fifth layer to a plan: ports that keep the memory of sent packets.
pub(super) fn draw_memory(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6b65_6570);
    for host in &mut plan.hosts {
        host.keeps = dice.one_in(2);
    }
}
