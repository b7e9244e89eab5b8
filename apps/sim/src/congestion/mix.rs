//! Mixes of many flows that come and go: their sizes and start times.

use super::scenario::FlowPlan;
use crate::dice::Dice;
use roce_stack::Duration;

/// The flow sizes of a cluster that answers web searches (Alizadeh et al., "Data Center TCP",
/// SIGCOMM 2010, figure 4). The curve is approximated by line segments, as is common in simulators.
/// Each point has a size in bytes (whole packets of 1460 bytes), and the share of flows that are no
/// larger.
pub const WEB_SEARCH: [(f64, f64); 12] = [
    (1_460.0, 0.0),
    (8_760.0, 0.15),
    (18_980.0, 0.2),
    (27_740.0, 0.3),
    (48_180.0, 0.4),
    (77_380.0, 0.53),
    (194_180.0, 0.6),
    (973_820.0, 0.7),
    (1_946_180.0, 0.8),
    (4_866_180.0, 0.9),
    (9_733_820.0, 0.97),
    (29_200_000.0, 1.0),
];

/// Flows with sizes as in [`WEB_SEARCH`] that start at random (a Poisson process) between random
/// hosts. Their number makes the average load of each link `load` of its rate.
pub fn web_search(
    hosts: usize,
    bits_per_sec: u64,
    load: f64,
    during: Duration,
    seed: u64,
) -> Vec<FlowPlan> {
    let mut dice = Dice::new(seed);
    let bytes_per_sec = load * hosts as f64 * bits_per_sec as f64 / 8.0;
    let mean_gap = mean(&WEB_SEARCH) / bytes_per_sec;
    let mut at = 0.0;
    let mut flows = Vec::new();
    loop {
        at -= mean_gap * (1.0 - fraction(&mut dice)).ln();
        if at >= during.as_secs_f64() {
            return flows;
        }
        let from = dice.index(hosts);
        // Any host but itself.
        let to = (from + 1 + dice.index(hosts - 1)) % hosts;
        flows.push(FlowPlan {
            start: Duration::from_secs_f64(at),
            bytes: Some(size_at(&WEB_SEARCH, fraction(&mut dice))),
            ..FlowPlan::endless(from, to)
        });
    }
}

/// Each host sends `bytes` to every other host, in random order, each flow starting at a random
/// time within `during`. If all hosts used the same order in lockstep, no two flows would share a
/// link.
pub fn all_to_all(hosts: usize, bytes: u64, during: Duration, seed: u64) -> Vec<FlowPlan> {
    let mut dice = Dice::new(seed);
    let mut flows = Vec::new();
    for from in 0..hosts {
        let mut others: Vec<usize> = (0..hosts).filter(|&to| to != from).collect();
        while !others.is_empty() {
            let to = others.swap_remove(dice.index(others.len()));
            flows.push(FlowPlan {
                start: during.mul_f64(fraction(&mut dice)),
                bytes: Some(bytes),
                ..FlowPlan::endless(from, to)
            });
        }
    }
    flows
}

/// At least 0 and less than 1.
fn fraction(dice: &mut Dice) -> f64 {
    (dice.number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The size that this share of flows does not exceed.
fn size_at(sizes: &[(f64, f64)], share: f64) -> u64 {
    let line = sizes.windows(2).find(|line| share < line[1].1);
    let size = line.map_or(0.0, |line| {
        let [(low, below), (high, above)] = [line[0], line[1]];
        low + (high - low) * (share - below) / (above - below)
    });
    (size as u64).max(1)
}

fn mean(sizes: &[(f64, f64)]) -> f64 {
    let part = |line: &[(f64, f64)]| (line[1].1 - line[0].1) * f64::midpoint(line[0].0, line[1].0);
    sizes.windows(2).map(part).sum()
}
