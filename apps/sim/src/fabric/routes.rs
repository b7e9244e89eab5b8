//! Routes: all shortest paths to each host, and the choice of one of them for each flow (ECMP).

use super::link::Egress;
use super::{EgressId, HostId, NodeId, SwitchId};
use roce_stack::RxMeta;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The routes of a switch.
#[derive(Debug)]
pub(super) struct Routes {
    /// The outgoing links that lead to each host on a shortest path, by the host's number.
    to_hosts: Vec<Vec<EgressId>>,
    /// Makes the choices of different switches independent.
    salt: u64,
    /// Whether the switch has forgotten its routes.
    pub(super) forgotten: bool,
}

impl Routes {
    pub(super) fn new(salt: u64) -> Self {
        Self {
            to_hosts: Vec::new(),
            salt,
            forgotten: false,
        }
    }

    /// The route to a host for packets of a flow. Among several, the choice depends on the
    /// addresses and the source port. A route that goes away moves only the flows that used it.
    pub(super) fn choose(&self, host: HostId, flow: &RxMeta) -> Option<EgressId> {
        match self.to_hosts.get(host.0)?[..] {
            [] => None,
            [only] => Some(only),
            ref several => {
                let flow = hash_flow(self.salt, flow);
                let weight = |route: &&EgressId| mix(flow ^ mix(route.0 as u64));
                several.iter().max_by_key(weight).copied()
            }
        }
    }
}

/// Replaces the routes of all switches. Routes avoid cables that are down, as if a routing protocol
/// had converged. If the only paths to a host have such a cable, packets take them, and are lost on
/// that cable.
pub(super) fn find_routes(egresses: &[Egress], switches: &mut [Routes], hosts: usize) {
    let towards = incoming(egresses, switches.len());
    for host in (0..hosts).map(HostId) {
        let of_all = shortest(egresses, &towards, host, |_| true);
        let of_up = shortest(egresses, &towards, host, |egress| !egress.down);
        for (switch, routes) in switches.iter_mut().zip(of_up.into_iter().zip(of_all)) {
            let (up, all) = routes;
            let routes = if up.is_empty() { all } else { up };
            switch.to_hosts.truncate(host.0);
            switch.to_hosts.push(routes);
        }
    }
}

/// The links that lead to each switch.
fn incoming(egresses: &[Egress], switches: usize) -> Vec<Vec<EgressId>> {
    let mut towards = vec![Vec::new(); switches];
    for egress in egresses {
        if let NodeId::Switch(SwitchId(number)) = egress.to {
            towards[number].push(egress.id);
        }
    }
    towards
}

/// For each switch, its links on the shortest paths to a host, by breadth-first search from the
/// host.
fn shortest(
    egresses: &[Egress],
    towards: &[Vec<EgressId>],
    host: HostId,
    usable: impl Fn(&Egress) -> bool,
) -> Vec<Vec<EgressId>> {
    let mut routes = vec![Vec::new(); towards.len()];
    let mut distance: Vec<Option<usize>> = vec![None; towards.len()];
    let last = egresses.iter().filter(|egress| egress.to == host.into());
    let mut reached: VecDeque<(usize, EgressId)> = last.map(|egress| (1, egress.id)).collect();
    while let Some((hops, id)) = reached.pop_front() {
        let egress = &egresses[id.0];
        let NodeId::Switch(SwitchId(number)) = egress.from else {
            continue;
        };
        if !usable(egress) || distance[number].is_some_and(|least| least < hops) {
            continue;
        }
        routes[number].push(id);
        if distance[number].replace(hops).is_none() {
            reached.extend(towards[number].iter().map(|id| (hops + 1, *id)));
        }
    }
    routes
}

/// The link of switch `at` on the way of a packet to a member of a multicast group, whose own link
/// is `member`. `None` if there is no way.
///
/// The ways are those of a tree: each switch's parent is the next node on its route to `root`. So a
/// packet that follows them reaches each member once, however many routes there are. With the
/// packet's source as the root, the way to each member is a shortest one.
pub(super) fn link_towards_member(
    (egresses, switches): (&[Egress], &[Routes]),
    at: SwitchId,
    (root, member): (HostId, EgressId),
    flow: &RxMeta,
) -> Option<EgressId> {
    let mut up = member;
    // A way up to the root has no switch twice.
    for _ in 0..=switches.len() {
        match egresses[up.0].to {
            NodeId::Switch(switch) if switch == at => return Some(up.reverse()),
            NodeId::Switch(switch) => up = switches[switch.0].choose(root, flow)?,
            // The member is not below this switch.
            NodeId::Host(_) => return switches[at.0].choose(root, flow),
        }
    }
    None
}

/// A hash of the flow's addresses and source port.
fn hash_flow(salt: u64, flow: &RxMeta) -> u64 {
    let of_address = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mut hash = salt;
    for address in [flow.src, flow.dst].map(of_address) {
        hash = mix(hash ^ address as u64);
        hash = mix(hash ^ (address >> 64) as u64);
    }
    mix(hash ^ u64::from(flow.src_port))
}

/// Spreads each bit of a word over all others.
fn mix(word: u64) -> u64 {
    let mut mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}
