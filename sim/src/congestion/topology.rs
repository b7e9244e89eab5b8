//! Topologies, and the switches' behaviour when they are full.

use crate::fabric::{CableId, SwitchId};
use serde::Serialize;

/// The connections between hosts and switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// This many hosts at one switch.
    Star(usize),
    /// Hosts 0 and 1 at one switch, 2 to 4 at another, and a cable between the two.
    ParkingLot,
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

/// One direction of a cable.
pub(super) type Link = (CableId, SwitchId);

impl Topology {
    /// Number of hosts.
    pub const fn hosts(self) -> usize {
        match self {
            Self::Star(hosts) => hosts,
            Self::ParkingLot => 5,
        }
    }

    pub(super) const fn switches(self) -> usize {
        match self {
            Self::Star(_) => 1,
            Self::ParkingLot => 2,
        }
    }

    /// The switch that a host is connected to.
    pub(super) const fn switch_of(self, host: usize) -> usize {
        match self {
            Self::Star(_) => 0,
            Self::ParkingLot => (host >= 2) as usize,
        }
    }

    /// The link on which a host receives. A host's cable has the host's number.
    pub(super) const fn link_to(self, host: usize) -> Link {
        (CableId(host), SwitchId(self.switch_of(host)))
    }

    /// The links that flows to these hosts may have to share.
    pub(super) fn shared_links(self, receivers: &[usize]) -> Vec<Link> {
        if self == Self::ParkingLot {
            return vec![(CableId(self.hosts()), SwitchId(0)), self.link_to(4)];
        }
        let mut links: Vec<Link> = receivers.iter().map(|&host| self.link_to(host)).collect();
        links.sort_unstable();
        links.dedup();
        links
    }
}
