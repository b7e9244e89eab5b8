//! The second layer of a plan: memory windows, revoked keys, and XRC connections. It has random
//! numbers of its own, so that the first layer of each seed stays the same.

use super::base::{Common, kinds, pair, srq};
use crate::dice::Dice;
use crate::swarm::plan::{Action, Disruption, Kind, Op, PairPlan, Plan, RequestFault, WindowPlan};
use roce_stack::{Access, MwType, QpKind, largest_path_mtu};

/// Adds the second layer to a plan.
pub(super) fn draw_windows_and_xrc(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6d6f_7265);
    let mut windows = dice.split();
    let mut xrc = dice.split();
    let revokes_keys = windows.one_in(3);
    if xrc.one_in(4) {
        draw_xrc(&mut xrc, plan);
    }
    for number in 0..plan.pairs.len() {
        let pair = &mut plan.pairs[number];
        if pair.connect.kind == QpKind::Rc && revokes_keys {
            for side in [0, 1] {
                draw_keys(&mut windows, pair, side);
                if !pair.windows[side].is_empty() && windows.one_in(12) {
                    let which = windows.index(pair.windows[side].len());
                    plan.disruptions.push(Disruption {
                        at_ns: windows.below(1_000_000),
                        what: Action::DropWindow(number, side, which),
                    });
                }
            }
        }
    }
}

/// Adds XRC connections to one host, or two.
fn draw_xrc(dice: &mut Dice, plan: &mut Plan) {
    let hosts = plan.hosts.len();
    plan.xrc_srqs = (0..hosts).map(|_| [srq(dice), srq(dice)]).collect();
    let common = Common {
        hosts,
        kinds: &kinds(dice),
        service: QpKind::XrcInitiator,
        shares: false,
        has_faults: dice.one_in(3),
        lossless: plan.lossless,
    };
    let largest = largest_path_mtu(plan.link.max_packet_bytes);
    let target = dice.index(hosts);
    for _ in 0..dice.pick(&[1, 2, 3]) {
        let mut pair = pair(dice, &common, largest);
        if !dice.one_in(4) {
            pair.hosts = [(target + 1 + dice.index(hosts - 1)) % hosts, target];
        }
        pair.start_ns = 0;
        pair.ops[1].clear();
        let one = dice.one_in(2);
        for op in &mut pair.ops[0] {
            op.srq = if one { 0 } else { dice.index(2) };
            if common.has_faults && dice.one_in(80) {
                op.fault = Some(RequestFault::Srq);
            }
        }
        plan.pairs.push(pair);
    }
}

/// Draws bindings and revocations of keys of the target of `side`.
fn draw_keys(dice: &mut Dice, pair: &mut PairPlan, side: usize) {
    let windows: Vec<WindowPlan> = match dice.below(4) {
        0 => return,
        1 => Vec::new(),
        _ => (0..1 + dice.index(3)).map(|_| window(dice)).collect(),
    };
    let count = windows.len();
    // Connections are short-lived if keys are revoked in use.
    let allow_hasty = dice.one_in(3);
    if count > 0 {
        for op in &mut pair.ops[side] {
            use_window(dice, op, count, allow_hasty);
        }
    }
    // A region loses its rights only once. A window is bound repeatedly.
    let least = usize::from(count > 0) * 3;
    let times = match count {
        0 => dice.index(2),
        _ => least + dice.index(pair.ops[1 - side].len() / 3 + 1),
    };
    let owner = &mut pair.ops[1 - side];
    for time in 0..times {
        let op = key_op(dice, count, pair.target_bytes, allow_hasty);
        let at = if time < least {
            0
        } else {
            dice.index(owner.len() + 1)
        };
        owner.insert(at, op);
    }
    pair.windows[side] = windows;
}

fn window(dice: &mut Dice) -> WindowPlan {
    let kind = dice.pick(&[MwType::Type1, MwType::Type2, MwType::Type2]);
    let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::FLUSH_GLOBAL;
    let zero_based = kind == MwType::Type2 && dice.one_in(2);
    WindowPlan {
        kind,
        access: dice.pick(&[all, all, Access::REMOTE_READ, Access::REMOTE_WRITE]),
        zero_based,
    }
}

fn use_window(dice: &mut Dice, op: &mut Op, count: usize, allow_hasty: bool) {
    op.hasty = allow_hasty && dice.one_in(10);
    if op.kind == Kind::Send && op.fault.is_none() && dice.one_in(4) {
        op.kind = Kind::SendInvalidate;
    }
    op.window = (!dice.one_in(4)).then(|| dice.index(count));
}

/// A binding, or an invalidation.
fn key_op(dice: &mut Dice, count: usize, target_bytes: usize, allow_hasty: bool) -> Op {
    let kind = match count {
        0 => Kind::LocalInv,
        _ => dice.pick(&[Kind::Bind, Kind::Bind, Kind::Bind, Kind::LocalInv]),
    };
    Op {
        kind,
        len: 8 + dice.index(target_bytes - 7),
        at: dice.index(1 << 20),
        window: (count > 0).then(|| dice.index(count)),
        srq: 0,
        hasty: allow_hasty && dice.one_in(if count > 0 { 6 } else { 2 }),
        elements: 1,
        signaled: !dice.one_in(3),
        fence: dice.one_in(6),
        inline: false,
        solicited: false,
        gap_ns: dice.pick(&[0, 0, 2_000, 100_000]),
        fault: match (kind, dice.below(120)) {
            (Kind::Bind, 0) => Some(RequestFault::Bounds),
            (Kind::Bind, 1) => Some(RequestFault::LocalKey),
            _ => None,
        },
    }
}
