//! The configuration of a [`UdpPort`](crate::UdpPort).

use std::net::IpAddr;

use roce_stack::{PriorityMap, QpnRange};

/// The interface behind a [`UdpPort`](crate::UdpPort), and the sizes of its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPortConfig {
    /// The interface's name, for error messages.
    pub interface: String,
    /// The interface's index, which is also the scope of link-local addresses.
    pub interface_index: u32,
    /// The interface's MTU: bytes of an IP packet, header included.
    pub mtu: usize,
    /// The interface's addresses. Only these can be activated.
    pub addresses: Vec<IpAddr>,
    /// The receive buffer to request from the kernel for each address, in bytes. The kernel may
    /// grant less, see `net.core.rmem_max`. Usually [`UdpPortConfig::RECEIVE_BUFFER_BYTES`].
    pub receive_buffer_bytes: usize,
    /// The send buffer to request from the kernel for each address, in bytes.
    pub send_buffer_bytes: usize,
    /// The size of each address's queue of packets that the kernel has not accepted yet, in bytes.
    /// At least 128 KiB are used.
    pub queue_bytes: usize,
    /// The maximum number of connected sockets for flows, one for each pair of destination and
    /// source port. A flow without a socket of its own sends from port 4791.
    pub flow_sockets: usize,
    /// The secret in the flows' source ports; see [`Flow::source_port`](roce_stack::Flow).
    pub source_port_secret: u16,
    /// Which datagrams the kernel sends without copying them.
    pub splice: UdpSplice,
    /// The maximum memory for datagrams that were sent without a copy and are not acknowledged, in
    /// bytes. When this memory is used up, the kernel copies datagrams.
    pub kept_bytes: usize,
    /// Whether to join packets into segmented datagrams, if the kernel can segment.
    pub segmentation: bool,
    /// The part of the QPN space that this port serves, if several processes share UDP port 4791 of
    /// its addresses. Each process [claims](crate::PartClaim) a part of its own. `None` if no other
    /// process shares the addresses.
    pub part: Option<QpnRange>,
    /// The priority of each packet's socket buffer (`SO_PRIORITY`). The kernel uses it to pick the
    /// transmit queue and, on a VLAN device, the priority in the tag. With `None`, the kernel
    /// derives the priority from the traffic class, as it does for any socket.
    pub priorities: Option<PriorityMap>,
}

/// Which datagrams from a flow's socket the kernel sends without copying them. A datagram holds up
/// to 64 packets. Only first transmissions of RC request packets qualify. Needs Linux 6.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpSplice {
    /// Datagrams of at least 16 KiB, while that costs the sender less than a copy. The port
    /// measures both methods, because the costs depend on the machine and change with time.
    #[default]
    Auto,
    /// Datagrams of at least this many bytes.
    From(usize),
    /// None.
    Off,
}

impl UdpPortConfig {
    /// The usual receive buffer, in bytes.
    pub const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

    /// The usual configuration for an interface.
    pub fn new(
        interface: impl Into<String>,
        interface_index: u32,
        mtu: usize,
        addresses: Vec<IpAddr>,
    ) -> Self {
        Self {
            interface: interface.into(),
            interface_index,
            mtu,
            addresses,
            receive_buffer_bytes: Self::RECEIVE_BUFFER_BYTES,
            send_buffer_bytes: 4 << 20,
            queue_bytes: 1 << 20,
            flow_sockets: 128,
            source_port_secret: 0,
            splice: UdpSplice::Auto,
            kept_bytes: 8 << 20,
            segmentation: true,
            part: None,
            priorities: None,
        }
    }

    /// The maximum length of a transport packet over this address family, in bytes: the MTU,
    /// limited by the 16-bit length fields, less the IP header (without options) and the UDP
    /// header.
    pub(crate) fn max_packet_bytes(&self, ipv6: bool) -> usize {
        let headers = header_bytes(ipv6);
        self.mtu.min(usize::from(u16::MAX)).saturating_sub(headers)
    }
}

/// The buffer sizes and offloads that the kernel grants the sockets of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOffer {
    /// The receive buffer that the kernel granted for each address, in bytes. The kernel adds the
    /// same number of bytes for the overhead of packets.
    pub receive_buffer_bytes: usize,
    /// Whether consecutive packets leave as one datagram that the kernel segments (`UDP_SEGMENT`).
    pub segmentation: bool,
    /// Whether one receive returns consecutive datagrams in one buffer (`UDP_GRO`).
    pub coalescing: bool,
    /// The maximum number of sockets for flows. 0 if all packets leave from port 4791.
    pub flow_sockets: usize,
    /// Why the kernel copies all datagrams; `None` if it sends long ones without a copy.
    pub why_copied: Option<&'static str>,
}

/// The length of the IP header (without options) and the UDP header, in bytes.
pub(crate) fn header_bytes(ipv6: bool) -> usize {
    if ipv6 { 40 + 8 } else { 20 + 8 }
}
