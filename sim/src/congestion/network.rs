//! Hosts, switches and cables of the experiments.

use super::scenario::Scenario;
use crate::fabric::{
    BufferSpec, CableId, Fabric, FabricBuilder, HostId, HostSpec, LinkSpec, SwitchId, SwitchSpec,
};
use serde::Serialize;

/// What is connected with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// So many hosts at one switch.
    Star(usize),
    /// Hosts 0 and 1 at one switch, 2 to 4 at another, and a cable between the two.
    ParkingLot,
}

/// What switches do when they run full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// They stop who sends by priority flow control, and lose nothing.
    Pfc,
    /// They have short queues, and drop what finds no room.
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

/// The switch of the DCQCN paper's section 4: 12 MB for 32 ports of 40 Gbit/s and eight
/// priorities, each of which may still have 22.4 KB under way when it is paused.
pub(super) const PAPER_BUFFER: BufferSpec = BufferSpec {
    bytes: 12_000_000,
    headroom_bytes: 32 * 8 * 22_400,
    hysteresis_bytes: 3_000,
};

/// What a port of a switch without flow control holds.
pub(super) const SHORT_QUEUE: usize = 256 << 10;

/// What a host's port takes ahead of its link. A packet of 4 KiB must fit.
const PORT_BYTES: usize = 8 << 10;

/// What one QP may have in flight: the most that the library asks for.
const WINDOW_BYTES: usize = 1 << 20;

/// The DSCP of CNPs.
const CNP_DSCP: u8 = 48;

/// One direction of a cable.
pub(super) type Link = (CableId, SwitchId);

impl Topology {
    /// How many hosts it has.
    pub const fn hosts(self) -> usize {
        match self {
            Self::Star(hosts) => hosts,
            Self::ParkingLot => 5,
        }
    }

    const fn switches(self) -> usize {
        match self {
            Self::Star(_) => 1,
            Self::ParkingLot => 2,
        }
    }

    /// The switch that a host is at.
    const fn switch_of(self, host: usize) -> usize {
        match self {
            Self::Star(_) => 0,
            Self::ParkingLot => (host >= 2) as usize,
        }
    }

    /// The link by which a host receives. A host's cable has the host's number.
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

impl Scenario {
    pub(super) fn build(&self, seed: u64) -> Fabric {
        let mut builder = FabricBuilder::new();
        let buffer = (self.loss == Loss::Pfc).then_some(PAPER_BUFFER);
        let switch = SwitchSpec {
            ecn: Some(self.ecn),
            pfc: None,
            buffer,
        };
        let switches: Vec<SwitchId> = (0..self.topology.switches())
            .map(|_| builder.switch(switch))
            .collect();
        let link = LinkSpec {
            bits_per_sec: self.bits_per_sec,
            delay: self.delay,
            queue_bytes: buffer.map_or(SHORT_QUEUE, |buffer| buffer.bytes),
            urgent_dscp: Some(CNP_DSCP),
            ..LinkSpec::default()
        };
        for number in 0..self.topology.hosts() {
            let host = builder.host(HostSpec {
                seed: seed.wrapping_mul(1000).wrapping_add(number as u64),
                window_bytes: WINDOW_BYTES,
                port_bytes: Some(PORT_BYTES),
                ..HostSpec::default()
            });
            debug_assert_eq!(host, HostId(number));
            builder.cable(host, switches[self.topology.switch_of(number)], link);
        }
        if let [first, second] = switches[..] {
            builder.cable(first, second, link);
        }
        builder.build(seed)
    }
}
