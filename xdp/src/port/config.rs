//! What a port is made from.

use std::net::IpAddr;

use crate::net::CoreConfig;
use crate::program::{AttachMode, RedirectConfig};
use crate::socket::SocketConfig;

/// Ethernet's header and a tag, in bytes.
const LINK_HEADERS: usize = 14 + 4;

/// Headers of IPv6 and UDP, in bytes: the longest over which a packet is carried.
const IPV6_HEADERS: usize = 40 + 8;
/// Headers of IPv4 and UDP, in bytes.
const IPV4_HEADERS: usize = 20 + 8;
/// RoCE v1's GRH, in bytes.
const GRH: usize = 40;

/// So many queues have as much memory each as one alone: 16 MiB.
const QUEUES_WITH_ALL: u32 = 4;

/// The longest transport packet in any packet of so many bytes.
pub(super) fn max_packet_bytes(mtu: usize, ipv6: bool, roce_v1: bool) -> usize {
    mtu.saturating_sub(match (ipv6, roce_v1) {
        (true, _) => IPV6_HEADERS,
        (false, true) => GRH,
        (false, false) => IPV4_HEADERS,
    })
}

/// Who fills in the UDP checksum of packets over IPv6. RoCE has none (Annex A17.3.2, with
/// RFC 6936), but a firewall on the way may want one. Over IPv4 none is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Checksum {
    /// Nobody: it is 0.
    #[default]
    None,
    /// The driver, or the kernel where that copies; we where neither can.
    Auto,
    /// We.
    Software,
}

/// What an [`XdpPort`](crate::XdpPort) is made from.
#[derive(Clone, Debug)]
pub struct XdpPortConfig {
    /// The interface, its queues and their memory.
    pub sockets: SocketConfig,
    /// How the redirect program is to be attached.
    pub attach: AttachMode,
    /// What the program takes for ours, and the port carries.
    pub redirect: RedirectConfig,
    /// Tags, and how many paths are remembered. That RoCE v1 is taken follows from
    /// `redirect`.
    pub net: CoreConfig,
    /// Who fills in the UDP checksum of packets over IPv6.
    pub ipv6_checksum: Ipv6Checksum,
}

impl XdpPortConfig {
    /// The usual configuration for an interface with this MTU in bytes.
    pub fn new(interface: &str, interface_index: u32, mtu: usize) -> Self {
        Self {
            sockets: SocketConfig::new(interface, interface_index, mtu),
            attach: AttachMode::default(),
            redirect: RedirectConfig::default(),
            net: CoreConfig::default(),
            ipv6_checksum: Ipv6Checksum::default(),
        }
    }

    /// Uses the interface's first `count` queues, at least one. The more there are, the
    /// less memory each has, down to a sixteenth.
    pub fn use_queues(&mut self, count: u32) {
        let sockets = &mut self.sockets;
        sockets.queues = (0..count.max(1)).collect();
        let share = count.div_ceil(QUEUES_WITH_ALL).clamp(1, 16);
        sockets.memory.rx_chunks = (sockets.memory.rx_chunks / share).max(1);
        sockets.memory.tx_frames = (sockets.memory.tx_frames / share).max(1);
    }

    /// About how many bytes each queue holds before frames are dropped.
    pub fn receive_buffer_bytes(&self) -> usize {
        // One packet takes a chunk or more, mostly of 1024 bytes or more.
        self.sockets.memory.rx_chunks as usize * 1024
    }

    /// The longest transport packet, from BTH to ICRC, on an interface that has these
    /// addresses.
    pub fn max_packet_bytes<'a>(&self, mut addresses: impl Iterator<Item = &'a IpAddr>) -> usize {
        let ipv6 = addresses.any(IpAddr::is_ipv6);
        max_packet_bytes(self.longest_ip(), ipv6, self.redirect.roce_v1)
    }

    /// The longest IP packet that there is room for.
    pub(super) fn longest_ip(&self) -> usize {
        self.sockets
            .memory
            .max_frame_bytes
            .saturating_sub(LINK_HEADERS)
    }
}
