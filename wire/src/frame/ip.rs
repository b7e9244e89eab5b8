//! Parsing of IP and UDP headers, and of the GRH that RoCE v1 has instead.

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket};

use super::{Frame, NetworkHeader};
use crate::{Grh, Layer, ParseError, Reason, UDP_PORT, UdpHeader};

const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// Parses an IPv4 packet. Options are allowed, fragments are not: a transport packet is never
/// fragmented (RoCEv2 Annex A17.3.1.1.5).
pub(super) fn parse_v4(bytes: &[u8], udp_port: u16) -> Result<Frame<'_>, ParseError> {
    let Ok(ip) = Ipv4Packet::new_checked(bytes) else {
        return Err(explain_v4(bytes));
    };
    if ip.version() != 4 {
        return Err(version(Layer::Ipv4, ip.version(), "4"));
    }
    let flags_fragment = u16::from_be_bytes([bytes[6], bytes[7]]);
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Err(ParseError {
            layer: Layer::Ipv4,
            // rule: CA17-8-no-fragments
            field: "fragment",
            reason: Reason::Fragment { flags_fragment },
        });
    }
    // rule: CA17-10-protocol
    if ip.next_header() != IpProtocol::Udp {
        return Err(ParseError::unsupported(
            Layer::Ipv4,
            "protocol",
            u8::from(ip.next_header()).into(),
            "0x11 (UDP)",
        ));
    }
    let header_len = usize::from(ip.header_len());
    let network = NetworkHeader::V4 {
        src: ip.src_addr().octets(),
        dst: ip.dst_addr().octets(),
        tos: bytes[1],
        ttl: ip.hop_limit(),
        id: ip.ident(),
        flags_fragment,
        options: &bytes[V4_LEN..header_len],
    };
    parse_udp(network, bytes, header_len, ip.payload(), udp_port)
}

/// Parses an IPv6 packet. The UDP header must follow immediately.
pub(super) fn parse_v6(bytes: &[u8], udp_port: u16) -> Result<Frame<'_>, ParseError> {
    let Ok(ip) = Ipv6Packet::new_checked(bytes) else {
        return Err(explain_v6(bytes));
    };
    if ip.version() != 6 {
        return Err(version(Layer::Ipv6, ip.version(), "6"));
    }
    // rule: CA17-16-next-header
    if ip.next_header() != IpProtocol::Udp {
        return Err(ParseError::unsupported(
            Layer::Ipv6,
            "next header",
            u8::from(ip.next_header()).into(),
            "0x11 (UDP), without extension headers",
        ));
    }
    let network = NetworkHeader::V6 {
        src: ip.src_addr().octets(),
        dst: ip.dst_addr().octets(),
        traffic_class: ip.traffic_class(),
        flow_label: ip.flow_label(),
        hop_limit: ip.hop_limit(),
    };
    parse_udp(network, bytes, V6_LEN, ip.payload(), udp_port)
}

/// Parses a RoCE v1 packet.
pub(super) fn parse_grh(bytes: &[u8]) -> Result<Frame<'_>, ParseError> {
    let grh = Grh::parse(bytes)?;
    if grh.next_header != Grh::NEXT_HEADER_BTH {
        return Err(ParseError::unsupported(
            Layer::Grh,
            "next header",
            grh.next_header.into(),
            "0x1b (BTH)",
        ));
    }
    let (covered, rest) = bytes.split_at(Grh::LEN);
    let len = usize::from(grh.payload_len);
    let Some(transport) = rest.get(..len) else {
        return Err(ParseError::too_large(
            Layer::Grh,
            "payload length",
            len,
            rest.len(),
        ));
    };
    Ok(Frame {
        link: None,
        network: NetworkHeader::Grh(grh),
        udp: None,
        transport,
        covered,
    })
}

/// Parses the UDP datagram `datagram`, which follows `header_len` bytes of `network` at the start
/// of `packet`.
// rule: CA17-21-length
fn parse_udp<'a>(
    network: NetworkHeader<'a>,
    packet: &'a [u8],
    header_len: usize,
    datagram: &'a [u8],
    udp_port: u16,
) -> Result<Frame<'a>, ParseError> {
    let Ok(udp) = UdpPacket::new_checked(datagram) else {
        return Err(explain_udp(datagram));
    };
    if udp.dst_port() != udp_port {
        return Err(ParseError::unsupported(
            Layer::Udp,
            "destination port",
            udp.dst_port().into(),
            match udp_port {
                UDP_PORT => "0x12b7 (4791)",
                _ => "the UDP port that the caller parses",
            },
        ));
    }
    Ok(Frame {
        link: None,
        network,
        udp: Some(UdpHeader {
            src_port: udp.src_port(),
            dst_port: udp.dst_port(),
            checksum: udp.checksum(),
        }),
        transport: udp.payload(),
        covered: &packet[..header_len + UDP_LEN],
    })
}

// rule: CA17-27-version
#[cold]
fn version(layer: Layer, found: u8, expected: &'static str) -> ParseError {
    ParseError::unsupported(layer, "version", found.into(), expected)
}

/// The error for an IPv4 header that smoltcp rejects: finds the wrong length or version.
#[cold]
fn explain_v4(bytes: &[u8]) -> ParseError {
    let Some(&[first, _, len0, len1]) = bytes.first_chunk() else {
        return ParseError::truncated(Layer::Ipv4, bytes.len(), V4_LEN);
    };
    if first >> 4 != 4 {
        return version(Layer::Ipv4, first >> 4, "4");
    }
    let header_len = 4 * usize::from(first & 0xf);
    let total_len = usize::from(u16::from_be_bytes([len0, len1]));
    if header_len < V4_LEN {
        ParseError::too_small(Layer::Ipv4, "header length", header_len, V4_LEN)
    } else if bytes.len() < header_len {
        ParseError::truncated(Layer::Ipv4, bytes.len(), header_len)
    } else if total_len < header_len {
        ParseError::too_small(Layer::Ipv4, "total length", total_len, header_len)
    } else {
        ParseError::too_large(Layer::Ipv4, "total length", total_len, bytes.len())
    }
}

/// The error for an IPv6 header that smoltcp rejects: finds the wrong length or version.
#[cold]
fn explain_v6(bytes: &[u8]) -> ParseError {
    let Some(&[first, _, _, _, len0, len1]) = bytes.first_chunk() else {
        return ParseError::truncated(Layer::Ipv6, bytes.len(), V6_LEN);
    };
    if first >> 4 != 6 {
        return version(Layer::Ipv6, first >> 4, "6");
    }
    match bytes.len().checked_sub(V6_LEN) {
        None => ParseError::truncated(Layer::Ipv6, bytes.len(), V6_LEN),
        Some(limit) => {
            let payload_len = usize::from(u16::from_be_bytes([len0, len1]));
            ParseError::too_large(Layer::Ipv6, "payload length", payload_len, limit)
        }
    }
}

/// The error for a UDP header that smoltcp rejects: finds the wrong length.
#[cold]
fn explain_udp(datagram: &[u8]) -> ParseError {
    let Some(&[_, _, _, _, len0, len1, _, _]) = datagram.first_chunk() else {
        return ParseError::truncated(Layer::Udp, datagram.len(), UDP_LEN);
    };
    let len = usize::from(u16::from_be_bytes([len0, len1]));
    if len < UDP_LEN {
        ParseError::too_small(Layer::Udp, "length", len, UDP_LEN)
    } else {
        ParseError::too_large(Layer::Udp, "length", len, datagram.len())
    }
}
