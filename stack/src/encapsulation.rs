//! The headers in front of the BTH, as far as the NIC needs them.
//!
//! The stack handles *transport packets*: the bytes from the BTH to the ICRC, both included, which
//! are the payload of RoCEv2's UDP datagram and of RoCE v1's GRH. The port handles Ethernet, IP and
//! UDP. [`RxMeta`] and [`TxMeta`] carry the fields of those headers that the transport or the ICRC
//! depends on.

use std::fmt;
use std::net::IpAddr;

/// The encapsulation between the Ethernet header and the BTH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RoceVersion {
    /// A GRH: RoCE, which is not routable (IBTA 1.7, Annex A16).
    V1,
    /// IP and UDP: RoCEv2 (IBTA 1.7, Annex A17).
    #[default]
    V2,
}

/// The name of the version in the Linux kernel's GID tables.
impl fmt::Display for RoceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "IB/RoCE v1",
            Self::V2 => "RoCE v2",
        })
    }
}

/// An address as a GID: an IPv4 address as an IPv4-mapped IPv6 address (RoCEv2 Annex A17.4.1.1).
pub(crate) fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The fields of the IPv4 header that the ICRC covers, and that a port may or may not see (RoCEv2
/// Annex A17.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpCovered {
    /// IPv6: of the variable fields, the ICRC covers only the addresses and the payload length.
    V6,
    /// IPv4, header visible: the identification and the 16-bit field of flags and fragment offset,
    /// in host byte order.
    V4 {
        /// Identification.
        id: u16,
        /// Flags and fragment offset; `0x4000` is "don't fragment".
        flags_fragment: u16,
    },
    /// IPv4 through a socket that hides both fields.
    V4Hidden,
    /// RoCE v1's GRH, with addresses of either family: as for IPv6.
    Grh,
    /// RoCEv2 that never leaves the host's memory, and has no ICRC: the last four bytes mean nothing.
    OnHost,
}

/// The metadata of a received packet besides its transport bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxMeta {
    /// The IP source address.
    pub src: IpAddr,
    /// The IP destination address: one of the port's own, or that of a multicast group.
    pub dst: IpAddr,
    /// The UDP source port. (The destination port is 4791: the port drops other packets.) RoCE v1
    /// has none.
    pub src_port: u16,
    /// The type of service (IPv4) or traffic class (IPv6): DSCP in the upper six
    /// bits, ECN in the lower two.
    pub traffic_class: u8,
    /// The other covered fields of the IP header.
    pub ip: IpCovered,
}

impl RxMeta {
    /// The version of RoCE that carried the packet.
    // rule: A16-stack
    #[inline]
    pub fn version(&self) -> RoceVersion {
        match self.ip {
            IpCovered::Grh => RoceVersion::V1,
            IpCovered::V4 { .. } | IpCovered::V4Hidden | IpCovered::V6 | IpCovered::OnHost => {
                RoceVersion::V2
            }
        }
    }

    /// Whether a switch marked the packet with "congestion experienced" (RFC 3168). RoCE v1 has
    /// neither ECN marks nor CNPs.
    pub(crate) fn is_marked(&self) -> bool {
        self.version() == RoceVersion::V2 && self.traffic_class & 3 == 3
    }
}

/// The metadata of a packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxMeta {
    /// The IP source address: one of the port's own. The code that drives the NIC validates it.
    pub src: IpAddr,
    /// The IP destination address, of the same family.
    pub dst: IpAddr,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Time to live or hop limit; 0 means the port's default.
    pub hop_limit: u8,
    /// The version of RoCE that carries the packet. The port must support it.
    pub version: RoceVersion,
}
