//! The seventh layer of a plan: multicast groups.

use super::base::HORIZON_NS;
use crate::dice::Dice;
use crate::swarm::plan::{DatagramPlan, MemberPlan, Membership, MulticastPlan, Plan, SenderPlan};
use roce_stack::{RoceVersion, largest_path_mtu};

/// The shortest datagram without immediate data, so that its bytes identify it.
const DISTINCT_BYTES: usize = 16;

/// Adds the seventh layer to a plan.
pub(super) fn draw_multicast(plan: &mut Plan) {
    let mut dice = Dice::new(plan.seed ^ 0x6772_6f75);
    // More QPs would change the numbers of those that a restart must repeat.
    let repeats = plan.pairs.iter().any(|pair| pair.follows.is_some());
    if !dice.one_in(5) || repeats {
        return;
    }
    let hosts = plan.hosts.len();
    let groups = dice.pick(&[1, 1, 2, 3]);
    let members = (0..1 + dice.index(5)).map(|_| member(&mut dice, hosts, groups));
    let members = members.collect();
    let largest = largest_path_mtu(plan.link.max_packet_bytes).bytes();
    let has_v1 = dice.one_in(3);
    let senders = (0..dice.pick(&[1, 1, 2, 3])).map(|_| SenderPlan {
        host: dice.index(hosts),
        version: match has_v1 && dice.one_in(2) {
            true => RoceVersion::V1,
            false => RoceVersion::V2,
        },
        depth: dice.pick(&[1, 4, 32]),
        datagrams: datagrams(&mut dice, groups, largest),
    });
    let senders = senders.collect();
    plan.multicast = MulticastPlan { members, senders };
}

fn member(dice: &mut Dice, hosts: usize, groups: usize) -> MemberPlan {
    let stays = dice.one_in(2);
    let mut memberships = Vec::new();
    for group in 0..groups {
        if groups > 1 && dice.one_in(3) {
            continue;
        }
        let from_ns = match stays {
            true => 0,
            false => dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]),
        };
        let lasts = dice.below(HORIZON_NS) / dice.pick(&[1, 10, 100]);
        memberships.push(Membership {
            group,
            from_ns,
            until_ns: (!stays && dice.one_in(2)).then_some(from_ns + lasts),
            twice: dice.one_in(4),
        });
    }
    MemberPlan {
        host: dice.index(hosts),
        memberships,
        ahead: dice.pick(&[1, 4, 64]),
        gap_ns: dice.pick(&[0, 0, 0, 30_000]),
    }
}

fn datagrams(dice: &mut Dice, groups: usize, largest: usize) -> Vec<DatagramPlan> {
    let count = dice.pick(&[5, 15, 40]);
    let max_gap_ns = dice.pick(&[0, 10_000, 50_000]);
    let has_faults = dice.one_in(3);
    let datagram = |_| {
        let len = match dice.below(3) {
            0 => dice.pick(&[0, 1, largest - 1, largest]),
            1 => dice.index(64),
            _ => dice.index(largest + 1),
        };
        DatagramPlan {
            group: dice.index(groups),
            len,
            imm: len < DISTINCT_BYTES || dice.one_in(2),
            wrong_key: has_faults && dice.one_in(10),
            gap_ns: dice.below(max_gap_ns),
        }
    };
    (0..count).map(datagram).collect()
}
