//! The Ethernet frames around the packets of simulated NICs.

use super::names::Ip;
use super::pool::Packet;
use roce_stack::{IpCovered, RxMeta};
use roce_wire::{FrameRepr, Grh, Link, NetworkHeader, UDP_PORT, UdpHeader};
use std::net::{IpAddr, Ipv4Addr};

/// Time to live of the frames.
const TTL: u8 = 64;

/// The longest headers: Ethernet, IPv6 and UDP, or Ethernet and GRH.
pub(super) const MAX_HEADER_BYTES: usize = 14 + 40 + 8;

/// Appends the first `snap_bytes` bytes of the Ethernet frame of a packet to `out`. Returns the
/// length of the whole frame.
pub(super) fn append(packet: &Packet, snap_bytes: usize, out: &mut Vec<u8>) -> usize {
    if packet.is_frame() {
        let frame = packet.bytes();
        out.extend_from_slice(&frame[..frame.len().min(snap_bytes)]);
        return frame.len();
    }
    let transport = packet.bytes();
    let repr = headers(&packet.meta);
    let mut buf = [0; MAX_HEADER_BYTES];
    let header_len = repr.emit_headers(&mut buf, transport.len());
    let header = &buf[..header_len];
    out.extend_from_slice(&header[..header_len.min(snap_bytes)]);
    let left = snap_bytes.saturating_sub(header_len);
    out.extend_from_slice(&transport[..transport.len().min(left)]);
    header_len + transport.len()
}

fn headers(meta: &RxMeta) -> FrameRepr<'static> {
    let network = match (meta.ip, meta.src, meta.dst) {
        (IpCovered::Grh, src, dst) => NetworkHeader::Grh(Grh {
            traffic_class: meta.traffic_class,
            flow_label: 0,
            payload_len: 0,
            next_header: Grh::NEXT_HEADER_BTH,
            hop_limit: TTL,
            sgid: gid(src),
            dgid: gid(dst),
        }),
        (ip, IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (id, flags_fragment) = match ip {
                IpCovered::V4 { id, flags_fragment } => (id, flags_fragment),
                _ => (0, 0),
            };
            NetworkHeader::V4 {
                src: src.octets(),
                dst: dst.octets(),
                tos: meta.traffic_class,
                ttl: TTL,
                id,
                flags_fragment,
                options: &[],
            }
        }
        (_, src, dst) => NetworkHeader::V6 {
            src: gid(src),
            dst: gid(dst),
            traffic_class: meta.traffic_class,
            flow_label: 0,
            hop_limit: TTL,
        },
    };
    FrameRepr {
        link: Some(Link {
            dst: mac(meta.dst),
            src: mac(meta.src),
            vlans: [None; 2],
        }),
        network,
        udp: Some(UdpHeader {
            src_port: meta.src_port,
            dst_port: UDP_PORT,
            checksum: 0,
        }),
    }
}

fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A link address: that of the group, or a local one with the host's number.
fn mac(address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            [0x01, 0, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [.., a, b, c, d] = v6.octets();
            [0x33, 0x33, a, b, c, d]
        }
        _ => {
            let number = Ip::index(address).map_or(0, |index| index + 1);
            let [a, b, c, d] = Ipv4Addr::from_bits(number as u32).octets();
            [0x02, 0, a, b, c, d]
        }
    }
}
