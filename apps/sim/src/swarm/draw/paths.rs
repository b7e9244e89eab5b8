//! The sixth layer of a plan: RoCE v1, limits of rates, and congestion control.

use super::base::HORIZON_NS;
use crate::dice::Dice;
use crate::swarm::plan::{Action, Disruption, Plan};
use roce_stack::{
    CongestionControl, CongestionSettings, DcqcnParameters, DelayParameters, Duration,
    NotificationPoint, QpKind, RateLimit, RoceVersion,
};

/// Rates in units of 1,000 bits a second. At the lowest, the longest message takes 10 ms.
const RATES: [u32; 4] = [100_000, 300_000, 1_000_000, 5_000_000];

/// Adds the sixth layer to a plan.
pub(super) fn draw_paths(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x7061_7468);
    let (mut versions, mut rates, mut congestion) = (dice.split(), dice.split(), dice.split());
    if versions.one_in(4) {
        for pair in &mut plan.pairs {
            if versions.one_in(2) {
                pair.connect.version = RoceVersion::V1;
            }
        }
        repeat_versions(plan);
    }
    if rates.one_in(4) {
        draw_rates(&mut rates, plan);
    }
    if congestion.one_in(3) {
        let hosts = 0..plan.hosts.len();
        plan.congestion = hosts.map(|_| settings(&mut congestion)).collect();
        for pair in &mut plan.pairs {
            // Some packets are not ECN-capable.
            pair.connect.traffic_class = congestion.pick(&[2, 2, 1, 0x69, 0]);
        }
    }
}

/// A connection that is made again has the version that it had before: a packet of the other
/// version would be dropped, and would not test whether it is recognized as an old one.
fn repeat_versions(plan: &mut Plan) {
    for number in 0..plan.pairs.len() {
        if let Some(before) = plan.pairs[number].follows {
            plan.pairs[number].connect.version = plan.pairs[before].connect.version;
        }
    }
}

/// Limits some QPs, and changes some limits while the QPs send.
fn draw_rates(dice: &mut Dice, plan: &mut Plan) {
    for (number, pair) in plan.pairs.iter_mut().enumerate() {
        for side in [0, 1] {
            if dice.one_in(2) {
                pair.connect.rate_limit[side] = limit(dice);
            }
            if dice.one_in(4) && pair.connect.kind != QpKind::Ud {
                pair.connect.static_rate[side] = dice.pick(&RATES);
            }
            if dice.one_in(4) {
                let limit = match dice.below(3) {
                    0 => RateLimit::NONE,
                    _ => limit(dice),
                };
                plan.disruptions.push(Disruption {
                    at_ns: dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]),
                    what: Action::LimitRate(number, side, limit),
                });
            }
        }
    }
}

fn limit(dice: &mut Dice) -> RateLimit {
    RateLimit {
        kilobits_per_second: dice.pick(&RATES),
        max_burst_bytes: dice.pick(&[0, 1, 5_000, 20_000]),
        typical_packet_bytes: 1,
    }
}

fn settings(dice: &mut Dice) -> CongestionSettings {
    let starting = DcqcnParameters {
        start_rate: 1_000,
        ..DcqcnParameters::PAPER
    };
    CongestionSettings {
        control: dice.pick(&[
            CongestionControl::None,
            CongestionControl::Dcqcn(DcqcnParameters::PAPER),
            CongestionControl::Dcqcn(DcqcnParameters::CONNECT_X),
            CongestionControl::Dcqcn(starting),
            CongestionControl::Delay(DelayParameters::DEFAULT),
        ]),
        notification: NotificationPoint {
            cnp_dscp: dice.pick(&[48, 0]),
            min_time_between_cnps: Duration::from_micros(dice.pick(&[0, 4, 50])),
        },
    }
}
