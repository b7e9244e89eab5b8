//! The flow that a frame belongs to. Frames may come from any program, and may be cut off.

use roce_wire::{Bth, ETHERTYPE_ROCE_V1, Grh, ICRC_LEN, Opcode, UDP_PORT};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;
/// The IPv6 extension headers that have a length: hop by hop, routing, destination options.
const IPV6_OPTIONS: [u8; 3] = [0, 43, 60];
/// The most IPv6 extension headers in front of a transport header.
const MAX_EXTENSIONS: usize = 4;
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];

/// Identifies a flow: the packets of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The source address.
    pub src: IpAddr,
    /// The destination address.
    pub dst: IpAddr,
    /// The IP protocol: 17 is UDP and 6 is TCP. RoCE v1 has 27, the next header of its GRH.
    pub protocol: u8,
    /// The source port of UDP and TCP, or 0.
    pub src_port: u16,
    /// The destination port of UDP and TCP, or 0.
    pub dst_port: u16,
    /// The destination queue pair, for RoCE.
    pub dest_qpn: Option<u32>,
}

/// A frame's flow and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) key: FlowKey,
    /// Bytes after all headers.
    pub(super) payload_bytes: usize,
    /// Whether a switch marked it "congestion experienced".
    pub(super) is_marked: bool,
    /// Whether it is a congestion notification packet.
    pub(super) is_cnp: bool,
}

/// Parses a frame or its beginning. `None` if it has no IP header or GRH, is malformed, or is cut
/// off before the ports.
pub(super) fn parse(frame: &[u8]) -> Option<Parsed> {
    let (_, mut rest) = frame.split_at_checked(12)?;
    for _ in 0..3 {
        let ethertype;
        (ethertype, rest) = be16(rest)?;
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            return parse_network(ethertype, rest);
        }
        (_, rest) = be16(rest)?;
    }
    None
}

fn parse_network(ethertype: u16, packet: &[u8]) -> Option<Parsed> {
    match ethertype {
        0x0800 => parse_v4(packet),
        0x86dd => parse_v6(packet),
        ETHERTYPE_ROCE_V1 => {
            let grh = Grh::parse(packet).ok()?;
            let (src, dst) = (gid(grh.sgid), gid(grh.dgid));
            let bytes = packet.get(Grh::LEN..)?;
            let network = Network {
                src,
                dst,
                protocol: Grh::NEXT_HEADER_BTH,
                is_marked: false,
                payload_len: grh.payload_len.into(),
            };
            parse_roce(&network, [0, 0], bytes, network.payload_len)
        }
        _ => None,
    }
}

/// The contents of a network header.
struct Network {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    is_marked: bool,
    /// Bytes after the header, by its length field.
    payload_len: usize,
}

fn parse_v4(packet: &[u8]) -> Option<Parsed> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    if header[0] >> 4 != 4 || header_len < header.len() {
        return None;
    }
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    let network = Network {
        src: Ipv4Addr::from_octets(*header[12..].first_chunk()?).into(),
        dst: Ipv4Addr::from_octets(*header[16..].first_chunk()?).into(),
        protocol: header[9],
        is_marked: header[1] & 3 == 3,
        payload_len: total_len.checked_sub(header_len)?,
    };
    parse_transport(&network, fragment_offset, packet.get(header_len..)?)
}

fn parse_v6(packet: &[u8]) -> Option<Parsed> {
    let header: &[u8; 40] = packet.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let mut network = Network {
        src: Ipv6Addr::from_octets(*header[8..].first_chunk()?).into(),
        dst: Ipv6Addr::from_octets(*header[24..].first_chunk()?).into(),
        protocol: header[6],
        is_marked: header[1] >> 4 & 3 == 3,
        payload_len: usize::from(u16::from_be_bytes([header[4], header[5]])),
    };
    let mut rest = &packet[header.len()..];
    let mut fragment_offset = 0;
    for _ in 0..MAX_EXTENSIONS {
        let is_fragment = network.protocol == IPV6_FRAGMENT;
        if !is_fragment && !IPV6_OPTIONS.contains(&network.protocol) {
            break;
        }
        let extension: &[u8; 8] = rest.first_chunk()?;
        let mut len = extension.len();
        if is_fragment {
            fragment_offset = u16::from_be_bytes([extension[2], extension[3]]) >> 3;
        } else {
            len += usize::from(extension[1]) * 8;
        }
        network.protocol = extension[0];
        network.payload_len = network.payload_len.checked_sub(len)?;
        rest = rest.get(len..)?;
    }
    parse_transport(&network, fragment_offset, rest)
}

fn parse_transport(network: &Network, fragment_offset: u16, packet: &[u8]) -> Option<Parsed> {
    let has_ports = matches!(network.protocol, UDP | TCP);
    if !has_ports || fragment_offset > 0 {
        // Only the first fragment has ports: the others are a flow of their own.
        return Some(parsed(network, [0, 0], network.payload_len));
    }
    let (src_port, rest) = be16(packet)?;
    let (dst_port, _) = be16(rest)?;
    let ports = [src_port, dst_port];
    let header_len = match network.protocol {
        TCP => usize::from(packet.get(12)? >> 4) * 4,
        _ => 8,
    };
    let payload_len = network.payload_len.checked_sub(header_len)?;
    if network.protocol == UDP && dst_port == UDP_PORT {
        return parse_roce(network, ports, packet.get(header_len..)?, payload_len);
    }
    Some(parsed(network, ports, payload_len))
}

fn parse_roce(network: &Network, ports: [u16; 2], packet: &[u8], len: usize) -> Option<Parsed> {
    let bth = Bth::parse(packet).ok()?;
    let headers = Bth::LEN + usize::from(bth.opcode.info().headers_len);
    let trailer = usize::from(bth.pad) + ICRC_LEN;
    let mut parsed = parsed(network, ports, len.checked_sub(headers + trailer)?);
    parsed.key.dest_qpn = Some(bth.dest_qpn.get());
    parsed.is_cnp = bth.opcode == Opcode::CNP;
    Some(parsed)
}

fn parsed(network: &Network, [src_port, dst_port]: [u16; 2], payload_bytes: usize) -> Parsed {
    Parsed {
        key: FlowKey {
            src: network.src,
            dst: network.dst,
            protocol: network.protocol,
            src_port,
            dst_port,
            dest_qpn: None,
        },
        payload_bytes,
        is_marked: network.is_marked,
        is_cnp: false,
    }
}

fn gid(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from_octets(octets).to_canonical()
}

fn be16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*head), rest))
}
