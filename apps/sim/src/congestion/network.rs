//! Hosts, switches and cables of the experiments.

use super::scenario::Scenario;
use super::topology::{Loss, Topology};
use crate::fabric::{BufferSpec, Fabric, HostSpec, LinkSpec, SwitchSpec};
use crate::network::Network;

/// The switch of the DCQCN paper's section 4: 12 MB for 32 ports of 40 Gbit/s and eight priorities,
/// each of which may still have 22.4 KB in flight when it is paused.
pub(super) const PAPER_BUFFER: BufferSpec = BufferSpec {
    bytes: 12_000_000,
    headroom_bytes: 32 * 8 * 22_400,
    hysteresis_bytes: 3_000,
};

/// The queue of a port on a switch without flow control, in bytes.
pub(super) const SHORT_QUEUE: usize = 256 << 10;

/// The bytes that a host's port takes from the NIC ahead of the link. A packet of 4 KiB must fit.
const PORT_BYTES: usize = 8 << 10;

/// The maximum number of bytes that one QP may have in flight. The library requests no larger
/// window.
const WINDOW_BYTES: usize = 1 << 20;

/// The DSCP of CNPs.
const CNP_DSCP: u8 = 48;

impl Scenario {
    /// The hosts, switches and links of the experiment.
    pub fn network(&self) -> Network {
        let buffer = (self.loss == Loss::Pfc).then_some(PAPER_BUFFER);
        let switch = SwitchSpec {
            ecn: Some(self.ecn),
            pfc: None,
            buffer,
        };
        let link = LinkSpec {
            bits_per_sec: self.bits_per_sec,
            delay: self.delay,
            queue_bytes: buffer.map_or(SHORT_QUEUE, |buffer| buffer.bytes),
            urgent_dscp: Some(CNP_DSCP),
            ..LinkSpec::default()
        };
        match &self.topology {
            Topology::Star(hosts) => Network::star(*hosts, link, switch),
            Topology::ParkingLot => Network::parking_lot(link, switch),
            Topology::Given(network) => network.clone(),
        }
    }
}

/// Builds a network with the hosts of all experiments.
pub(super) fn build(network: &Network, seed: u64) -> Fabric {
    network.build(
        seed,
        HostSpec {
            window_bytes: WINDOW_BYTES,
            port_bytes: Some(PORT_BYTES),
            ..HostSpec::default()
        },
    )
}
