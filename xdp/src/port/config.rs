//! The configuration of a port.

use std::net::IpAddr;

use crate::net::CoreConfig;
use crate::program::{AttachMode, RedirectConfig};
use crate::socket::SocketConfig;

/// Length of the Ethernet header and a VLAN tag, in bytes.
const LINK_HEADERS: usize = 14 + 4;

/// Length of the IPv6 and UDP headers, in bytes: the longest headers of RoCEv2.
const IPV6_HEADERS: usize = 40 + 8;
/// Length of the IPv4 and UDP headers, in bytes.
const IPV4_HEADERS: usize = 20 + 8;
/// Length of RoCE v1's GRH, in bytes.
const GRH: usize = 40;

/// The maximum number of queues with which each queue still has the full amount of memory, 16 MiB.
const QUEUES_WITH_FULL_MEMORY: u32 = 4;

/// The longest transport packet in an IP packet of `mtu` bytes.
pub(super) fn max_packet_bytes(mtu: usize, ipv6: bool, roce_v1: bool) -> usize {
    mtu.saturating_sub(match (ipv6, roce_v1) {
        (true, _) => IPV6_HEADERS,
        (false, true) => GRH,
        (false, false) => IPV4_HEADERS,
    })
}

/// The component that fills in the UDP checksum of packets over IPv6. RoCEv2 requires no checksum
/// (Annex A17.3.2.4, with RFC 6936), but a firewall on the path may. Packets over IPv4 carry none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Checksum {
    /// No checksum: the field is 0.
    #[default]
    None,
    /// The driver, or the kernel in copy mode; this port if neither can.
    Auto,
    /// This port.
    Software,
}

/// The configuration of an [`XdpPort`](crate::XdpPort).
#[derive(Clone, Debug)]
pub struct XdpPortConfig {
    /// The interface, its queues and their memory.
    pub sockets: SocketConfig,
    /// How to attach the redirect program.
    pub attach: AttachMode,
    /// Which frames the program redirects and the port carries.
    pub redirect: RedirectConfig,
    /// VLAN tags, and the number of paths to remember. Whether RoCE v1 is accepted follows from
    /// `redirect`.
    pub net: CoreConfig,
    /// The component that fills in the UDP checksum of packets over IPv6.
    pub ipv6_checksum: Ipv6Checksum,
    /// The secret in the flows' source ports; see [`Flow::source_port`](roce_stack::Flow).
    pub source_port_secret: u16,
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
            source_port_secret: 0,
        }
    }

    /// Uses the interface's first `count` queues, at least one. With more queues, each has less
    /// memory, down to a sixteenth.
    pub fn use_queues(&mut self, count: u32) {
        let sockets = &mut self.sockets;
        sockets.queues = (0..count.max(1)).collect();
        let share = count.div_ceil(QUEUES_WITH_FULL_MEMORY).clamp(1, 16);
        sockets.memory.rx_chunks = (sockets.memory.rx_chunks / share).max(1);
        sockets.memory.tx_frames = (sockets.memory.tx_frames / share).max(1);
    }

    /// The approximate number of received bytes that each queue holds before it drops frames.
    pub fn receive_buffer_bytes(&self) -> usize {
        // A packet takes at least one chunk, and most carry 1024 bytes or more.
        self.sockets.memory.rx_chunks as usize * 1024
    }

    /// The longest transport packet, from BTH to ICRC, on an interface that has these
    /// addresses.
    pub fn max_packet_bytes<'a>(&self, mut addresses: impl Iterator<Item = &'a IpAddr>) -> usize {
        let ipv6 = addresses.any(IpAddr::is_ipv6);
        max_packet_bytes(self.max_ip_bytes(), ipv6, self.redirect.roce_v1)
    }

    /// The maximum length of an IP packet that fits into a frame of this configuration, in bytes.
    pub(super) fn max_ip_bytes(&self) -> usize {
        self.sockets
            .memory
            .max_frame_bytes
            .saturating_sub(LINK_HEADERS)
    }
}
