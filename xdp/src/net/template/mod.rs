//! Header templates, which are complete except for the fields that change from packet to packet.

use roce_stack::{IpCovered, RoceVersion};
use roce_wire::{FrameRepr, Grh, Link as FrameLink, NetworkHeader, UDP_PORT, UdpHeader, VlanTag};
use std::hint::cold_path;

use super::checksum;
use super::event::PathKey;
use super::facts::{Mac, Priority};
use crate::queue::ChecksumAt;

const ETHERNET_LEN: usize = 14;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const UDP_LEN: usize = 8;
/// Offset of the addresses in an IPv6 header.
const V6_ADDRESSES_AT: usize = 8;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM_AT: u16 = 6;
/// The protocol number in the pseudo header.
const PROTOCOL_UDP: u64 = 17;

/// The longest header: Ethernet, a tag, IPv6, UDP.
pub const MAX_HEADER_LEN: usize = ETHERNET_LEN + VlanTag::LEN + V6_LEN + UDP_LEN;

/// The usual header: Ethernet without a tag, IPv4, UDP.
const USUAL_LEN: usize = ETHERNET_LEN + V4_LEN + UDP_LEN;

/// "Don't fragment", which is set in every packet over IPv4 (RoCEv2 Annex A17.3.1.1.5).
const DONT_FRAGMENT: u16 = 0x4000;

/// The default hop limit.
pub const DEFAULT_HOP_LIMIT: u8 = 64;

/// The headers between Ethernet and BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// IPv4 and UDP.
    V4,
    /// IPv6 and UDP.
    V6,
    /// RoCE v1's GRH.
    Grh,
}

/// The headers of all packets from one address to another: Ethernet, then IP and UDP, or
/// RoCE v1's GRH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; MAX_HEADER_LEN],
    header_len: usize,
    /// The offsets of the start and the end of the IP header or GRH.
    ip_at: usize,
    ip_end: usize,
    network: Network,
    /// Whether the headers are untagged Ethernet, IPv4 and UDP.
    is_usual: bool,
    /// The longest transport packet, in bytes.
    max_transport: usize,
    /// Over IPv4, the sum of the header's constant 16-bit words; over IPv6, the sum of the pseudo
    /// header without the length (RFC 8200, 8.1). A GRH has none.
    sum: u64,
    /// The source of the tag's priority, if there is a tag.
    priority: Option<Priority>,
}

/// The fields that change from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFields {
    /// Bytes from the BTH to the ICRC.
    pub transport_len: usize,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Time to live or hop limit; 0 means [`DEFAULT_HOP_LIMIT`].
    pub hop_limit: u8,
    /// The UDP source port.
    pub src_port: u16,
    /// The IPv4 identification. Packets that are never fragmented may all have the same one (RFC
    /// 6864, 4.1).
    pub id: u16,
}

impl PacketFields {
    #[inline(always)]
    fn hop_limit(&self) -> u8 {
        match self.hop_limit {
            0 => DEFAULT_HOP_LIMIT,
            hop_limit => hop_limit,
        }
    }
}

impl Template {
    /// The headers from `src` to `dst` for a link with this MTU; `None` if the addresses are of
    /// different families.
    pub(super) fn new(
        path: PathKey,
        src: Mac,
        dst: Mac,
        tag: Option<(VlanTag, Priority)>,
        mtu: usize,
    ) -> Option<Template> {
        let header = network(path)?;
        let (network, ip_len, udp_len) = match header {
            NetworkHeader::V4 { .. } => (Network::V4, V4_LEN, UDP_LEN),
            NetworkHeader::V6 { .. } => (Network::V6, V6_LEN, UDP_LEN),
            NetworkHeader::Grh(_) => (Network::Grh, Grh::LEN, 0),
        };
        let repr = FrameRepr {
            link: Some(FrameLink {
                dst,
                src,
                vlans: [tag.map(|(tag, _)| tag), None],
            }),
            network: header,
            udp: Some(UdpHeader {
                src_port: UDP_PORT,
                dst_port: UDP_PORT,
                // RoCEv2 packets carry no UDP checksum, because the ICRC covers more (Annex
                // A17.3.2.4).
                checksum: 0,
            }),
        };
        let mut bytes = [0; MAX_HEADER_LEN];
        let header_len = repr.emit_headers(&mut bytes, 0);
        let ip_end = header_len - udp_len;
        let ip_at = ip_end - ip_len;
        let max_ip_bytes = mtu.min(usize::from(u16::MAX));
        Some(Template {
            sum: constant_sum(&bytes[ip_at..ip_end], network),
            bytes,
            header_len,
            ip_at,
            ip_end,
            network,
            is_usual: network == Network::V4 && tag.is_none(),
            max_transport: max_ip_bytes.saturating_sub(ip_len + udp_len),
            priority: tag.map(|(_, priority)| priority),
        })
    }

    /// Length of the headers in front of the transport packet, in bytes.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// The longest transport packet (BTH to ICRC) on this path, in bytes.
    pub fn max_transport(&self) -> usize {
        self.max_transport
    }

    /// The part of the IP header that the ICRC of a packet with this identification covers.
    pub fn covered(&self, id: u16) -> IpCovered {
        match self.network {
            Network::V4 => IpCovered::V4 {
                id,
                flags_fragment: DONT_FRAGMENT,
            },
            Network::V6 => IpCovered::V6,
            Network::Grh => IpCovered::Grh,
        }
    }

    /// Writes the headers of a packet into the first [`Template::header_len`] bytes of `frame`.
    ///
    /// # Panics
    /// If `frame` is shorter than that, or `transport_len` exceeds [`Template::max_transport`].
    /// Callers check the length when they reserve the packet.
    // rule: CA17-2-format, CA17-21-length, A17.3.2.4-checksum
    // rule: CA17-13-dscp, CA17-15-payload-length, CA17-17-hop-limit
    #[inline]
    pub fn write(&self, frame: &mut [u8], fields: &PacketFields) {
        assert!(
            fields.transport_len <= self.max_transport,
            "a transport packet of {} bytes: expected at most {}",
            fields.transport_len,
            self.max_transport
        );
        if self.is_usual
            && let Some(frame) = frame.first_chunk_mut::<USUAL_LEN>()
        {
            return self.write_usual(frame, fields);
        }
        cold_path();
        let frame = &mut frame[..self.header_len];
        frame.copy_from_slice(&self.bytes[..self.header_len]);
        if let Some(priority) = self.priority {
            cold_path();
            frame[ETHERNET_LEN] |= priority.of(fields.traffic_class) << 5;
        }
        let (ip, udp) = frame.split_at_mut(self.ip_end);
        let ip = &mut ip[self.ip_at..];
        // No overflow: `max_transport` leaves room for the IP and UDP headers below 2^16.
        let mut len = fields.transport_len as u16;
        if self.network != Network::Grh {
            len += UDP_LEN as u16;
            udp[0..2].copy_from_slice(&fields.src_port.to_be_bytes());
            udp[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let hop_limit = fields.hop_limit();
        match self.network {
            Network::V4 => self.write_v4(ip, fields, len + V4_LEN as u16, hop_limit),
            // A GRH has IPv6's layout.
            Network::V6 | Network::Grh => {
                ip[0] |= fields.traffic_class >> 4;
                ip[1] |= fields.traffic_class << 4;
                ip[4..6].copy_from_slice(&len.to_be_bytes());
                ip[7] = hop_limit;
            }
        }
    }

    /// As [`Template::write`], for untagged Ethernet, IPv4 and UDP, with all offsets known at
    /// compile time.
    #[inline(always)]
    fn write_usual(&self, frame: &mut [u8; USUAL_LEN], fields: &PacketFields) {
        const IP: usize = ETHERNET_LEN;
        const UDP: usize = IP + V4_LEN;
        // No overflow: `max_transport` leaves room for the IP and UDP headers below 2^16.
        let udp_len = (fields.transport_len + UDP_LEN) as u16;
        let total_len = udp_len + V4_LEN as u16;
        let hop_limit = fields.hop_limit();
        frame.copy_from_slice(&self.bytes[..USUAL_LEN]);
        self.write_v4(&mut frame[IP..UDP], fields, total_len, hop_limit);
        frame[UDP..UDP + 2].copy_from_slice(&fields.src_port.to_be_bytes());
        frame[UDP + 4..UDP + 6].copy_from_slice(&udp_len.to_be_bytes());
    }

    /// The position of a packet's UDP checksum over IPv6; `None` over IPv4, and for RoCE v1, which
    /// has no UDP header.
    pub fn udp_checksum(&self) -> Option<ChecksumAt> {
        (self.network == Network::V6).then_some(ChecksumAt {
            start: (self.header_len - UDP_LEN) as u16,
            offset: UDP_CHECKSUM_AT,
        })
    }

    /// Writes the sum of the pseudo header into the field of the UDP checksum, over IPv6.
    ///
    /// # Panics
    /// If `frame` is shorter than the header.
    pub fn begin_checksum(&self, frame: &mut [u8], transport_len: usize) {
        let sum = checksum::fold(self.sum + (transport_len + UDP_LEN) as u64);
        let at = self.header_len - UDP_LEN + usize::from(UDP_CHECKSUM_AT);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Completes the UDP checksum that [`Template::begin_checksum`] began. `frame` is the whole
    /// frame.
    pub fn end_checksum(frame: &mut [u8], at: ChecksumAt) {
        let Some(covered) = frame.get_mut(usize::from(at.start)..) else {
            return;
        };
        let sum = checksum::of_udp(checksum::sum(covered));
        let at = usize::from(at.offset);
        if let Some(field) = covered.get_mut(at..at + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Writes the variable fields of an IPv4 header, and its checksum.
    // rule: CA17-4-dscp, CA17-6-total-length, CA17-9-time-to-live
    #[inline(always)]
    fn write_v4(&self, ip: &mut [u8], fields: &PacketFields, total_len: u16, hop_limit: u8) {
        ip[1] = fields.traffic_class;
        ip[2..4].copy_from_slice(&total_len.to_be_bytes());
        ip[4..6].copy_from_slice(&fields.id.to_be_bytes());
        ip[8] = hop_limit;
        let sum = self.sum
            + u64::from(fields.traffic_class)
            + u64::from(total_len)
            + u64::from(fields.id)
            + (u64::from(hop_limit) << 8);
        ip[10..12].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
    }

    /// Replaces the destination address in headers that are already written.
    pub fn readdress(frame: &mut [u8], dst: Mac) {
        if let Some(field) = frame.first_chunk_mut::<6>() {
            *field = dst;
        }
    }

    /// Sets the destination's Ethernet address.
    pub(super) fn set_dst(&mut self, dst: Mac) {
        Template::readdress(&mut self.bytes, dst);
    }

    /// The destination's Ethernet address.
    pub fn dst(&self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.bytes;
        [a, b, c, d, e, f]
    }
}

/// The IP header or GRH with its constant fields; `None` if the addresses are of different
/// families.
fn network(path: PathKey) -> Option<NetworkHeader<'static>> {
    use std::net::IpAddr::{V4, V6};
    match (path.src, path.dst) {
        (src, dst) if path.version == RoceVersion::V1 => (src.is_ipv4() == dst.is_ipv4())
            // rule: A16-grh
            .then_some(NetworkHeader::Grh(Grh {
                traffic_class: 0,
                flow_label: 0,
                payload_len: 0,
                next_header: Grh::NEXT_HEADER_BTH,
                hop_limit: 0,
                sgid: gid_of(src),
                dgid: gid_of(dst),
            })),
        // rule: CA17-3-header-length, CA17-7-dont-fragment, CA17-8-no-fragments
        // rule: CA17-11-source, CA17-12-destination
        (V4(src), V4(dst)) => Some(NetworkHeader::V4 {
            src: src.octets(),
            dst: dst.octets(),
            tos: 0,
            ttl: 0,
            id: 0,
            flags_fragment: DONT_FRAGMENT,
            options: &[],
        }),
        // rule: CA17-18-source, CA17-19-destination
        (V6(src), V6(dst)) => Some(NetworkHeader::V6 {
            src: src.octets(),
            dst: dst.octets(),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 0,
        }),
        _ => None,
    }
}

/// An address as a GID; IPv4 addresses are mapped into IPv6.
fn gid_of(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(address) => address.octets(),
    }
}

/// The sum of the constant fields, see [`Template`].
fn constant_sum(ip: &[u8], network: Network) -> u64 {
    let sum = match network {
        // Without the total length and the checksum.
        Network::V4 => {
            checksum::sum(&ip[..2]) + checksum::sum(&ip[4..10]) + checksum::sum(&ip[12..])
        }
        Network::V6 => checksum::sum(&ip[V6_ADDRESSES_AT..]) + PROTOCOL_UDP,
        Network::Grh => 0,
    };
    checksum::fold(sum).into()
}

/// Whether an IPv4 header's checksum is correct.
#[inline]
pub(super) fn checksum_holds(header: &[u8]) -> bool {
    checksum::fold(checksum::sum(header)) == 0xffff
}

#[cfg(test)]
mod tests;
