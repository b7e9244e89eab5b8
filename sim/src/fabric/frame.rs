//! The Ethernet frames around the packets of simulated NICs.

use super::ip::Ip;
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

/// Sets "congestion experienced" in the header of IP of a frame, as a switch does, and corrects the
/// header's checksum.
pub(super) fn mark(frame: &mut [u8]) {
    let Some((ethernet, header)) = frame.split_at_mut_checked(14) else {
        return;
    };
    match (&ethernet[12..], header) {
        ([0x08, 0x00], [_, class, rest @ ..]) if rest.len() >= 18 => {
            let before = *class;
            *class |= 3;
            // RFC 1624, equation 3: the sum changes as the 16-bit word does.
            let sum = u16::from_be_bytes([rest[8], rest[9]]);
            let added = u32::from(!sum) + u32::from(!u16::from(before)) + u32::from(*class);
            let folded = (added & 0xffff) + (added >> 16);
            let folded = (folded & 0xffff) + (folded >> 16);
            let sum = !u16::try_from(folded).unwrap_or(0);
            rest[8..10].copy_from_slice(&sum.to_be_bytes());
        }
        // The class is the second half of the first byte and the first half of the second.
        ([0x86, 0xdd], [_, second, ..]) => *second |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let word = |word: &[u8]| u32::from(u16::from_be_bytes([word[0], word[1]]));
        let sum: u32 = header.chunks(2).map(word).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("16 bits")
    }

    #[test]
    fn a_mark_leaves_a_right_checksum_whatever_it_was() {
        for id in 0..=u16::MAX {
            let mut frame = [0; 34];
            frame[12] = 8;
            frame[14..18].copy_from_slice(&[0x45, 0x6a, 0, 40]);
            frame[18..20].copy_from_slice(&id.to_be_bytes());
            let sum = checksum(&frame[14..]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            mark(&mut frame);
            assert_eq!(frame[15], 0x6b);
            assert_eq!(checksum(&frame[14..]), 0, "identification {id}");
        }
    }

    #[test]
    fn a_mark_is_set_in_ipv6() {
        let mut frame = [0; 54];
        frame[12..16].copy_from_slice(&[0x86, 0xdd, 0x6a, 0xa0]);
        mark(&mut frame);
        assert_eq!(frame[14..16], [0x6a, 0xb0]);
    }

    #[test]
    fn cut_frames_and_other_protocols_have_no_mark() {
        for ethertype in [[8, 0], [0x86, 0xdd], [8, 6]] {
            for len in 0..34 {
                let mut frame = vec![0; len];
                for (to, from) in frame.iter_mut().skip(12).zip(ethertype) {
                    *to = from;
                }
                let before = frame.clone();
                mark(&mut frame);
                assert!(len >= 16 && ethertype == [0x86, 0xdd] || frame == before);
            }
        }
    }
}
