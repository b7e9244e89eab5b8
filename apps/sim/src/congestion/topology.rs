//! Topologies, and the switches' behaviour when they are full.

use crate::fabric::{CableId, HostId, NodeId};
use crate::network::Network;
use serde::Serialize;

/// The connections between hosts and switches.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// This many hosts at one switch.
    Star(usize),
    /// Hosts 0 and 1 at one switch, 2 to 4 at another, and a cable between the two.
    ParkingLot,
    /// Any network, whose rates, delays and switches count instead of the scenario's. Its events
    /// happen; a host that is killed no longer answers.
    Given(Network),
}

/// The switches' behaviour when they run full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// They stop the senders with priority flow control, and drop no packet.
    Pfc,
    /// They have short queues, and drop packets that find the queue full.
    Drop,
}

impl Loss {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pfc, Self::Drop];

    /// Its name in tables and arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pfc => "pfc",
            Self::Drop => "drop",
        }
    }
}

/// One direction of a link: the link, and the node that sends.
pub(super) type Direction = (CableId, NodeId);

impl Topology {
    /// The directions that flows to these hosts may have to share.
    pub(super) fn shared_links(&self, network: &Network, receivers: &[usize]) -> Vec<Direction> {
        let to = |host: &usize| network.link_of(HostId(*host));
        let between = || network.between_switches();
        match self {
            Self::Star(_) => sorted(receivers.iter().filter_map(to)),
            Self::ParkingLot => between().take(1).chain(to(&4)).collect(),
            Self::Given(_) => sorted(receivers.iter().filter_map(to).chain(between())),
        }
    }
}

impl Network {
    /// Both directions of each link between two switches.
    fn between_switches(&self) -> impl Iterator<Item = Direction> {
        let is_switch = |node: &NodeId| matches!(node, NodeId::Switch(_));
        let links = self.links.iter().enumerate();
        let links = links.filter(move |(_, link)| link.ends.iter().all(is_switch));
        links.flat_map(|(number, link)| link.ends.map(|from| (CableId(number), from)))
    }
}

fn sorted(links: impl Iterator<Item = Direction>) -> Vec<Direction> {
    let mut links: Vec<Direction> = links.collect();
    links.sort_unstable();
    links.dedup();
    links
}
