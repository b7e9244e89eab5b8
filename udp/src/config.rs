//! What a [`UdpPort`](crate::UdpPort) is made from.

use std::net::IpAddr;

use roce_stack::{PriorityMap, QpnPart};

/// The interface that a [`UdpPort`](crate::UdpPort) stands for, and the sizes of
/// its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPortConfig {
    /// The interface's name, for error messages.
    pub interface: String,
    /// The interface's index, which is also the scope of link-local addresses.
    pub interface_index: u32,
    /// The interface's MTU: bytes of an IP packet, header included.
    pub mtu: usize,
    /// The interface's addresses: those that can be activated.
    pub addresses: Vec<IpAddr>,
    /// Bytes of receive buffer to ask of the kernel for each address. It may give
    /// less, see `net.core.rmem_max`. Usually [`UdpPortConfig::RECEIVE_BUFFER_BYTES`].
    pub receive_buffer_bytes: usize,
    /// Bytes of send buffer to ask of the kernel for each address.
    pub send_buffer_bytes: usize,
    /// Bytes that wait inside the port, for each address, for the kernel to take
    /// them. Raised to 128 KiB if less.
    pub queue_bytes: usize,
    /// Whether to join packets into segmented datagrams, where the kernel can.
    pub segmentation: bool,
    /// The part of the QPNs that the port's packets are for, if it shares UDP port 4791 of
    /// its addresses with others, each with a part of its own
    /// ([`PartClaim`](crate::PartClaim)). Without one it has the addresses for itself.
    pub part: Option<QpnPart>,
    /// The priority that the kernel is to give packets (`SO_PRIORITY`), by which it picks
    /// their queue and, on a VLAN's device, the priority in their tag. Without one it makes
    /// of the traffic class what it makes of any.
    pub priorities: Option<PriorityMap>,
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
            segmentation: true,
            part: None,
            priorities: None,
        }
    }

    /// The largest transport packet in a datagram of `family`'s kind: what MTU and
    /// the 16-bit length fields leave after the IP header (without options) and
    /// the UDP header.
    pub(crate) fn max_packet_bytes(&self, ipv6: bool) -> usize {
        let headers = header_bytes(ipv6);
        self.mtu.min(usize::from(u16::MAX)).saturating_sub(headers)
    }
}

/// What the kernel gives the sockets of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOffer {
    /// Bytes of receive buffer for each address, for packets and what the kernel
    /// keeps of each beside its payload.
    pub receive_buffer_bytes: usize,
    /// Whether consecutive packets leave as one datagram that the kernel cuts up
    /// (`UDP_SEGMENT`).
    pub segmentation: bool,
    /// Whether what arrives in a row is handed over in one piece (`UDP_GRO`).
    pub coalescing: bool,
}

/// Bytes of IP header (without options) and UDP header.
pub(crate) fn header_bytes(ipv6: bool) -> usize {
    if ipv6 { 40 + 8 } else { 20 + 8 }
}
