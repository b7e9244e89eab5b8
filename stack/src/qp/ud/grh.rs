//! The 40 bytes in front of a received datagram (IBTA 1.7, 11.4.1.2; RoCEv2 Annex A17.4.5.2): the
//! IPv6 header, or, in the last 20 bytes, the IPv4 header; for RoCE v1, the GRH.

use crate::encapsulation::{IpCovered, RxMeta, gid};
use crate::wr::NetworkHeader;
use roce_wire::Grh;
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of an IPv4 header without options.
const IPV4_LEN: usize = 20;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// The protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;

/// The kind of network header that a packet had.
// rule: A17.4.5.1-network
pub(super) fn network_kind(meta: &RxMeta) -> NetworkHeader {
    match meta.dst {
        _ if meta.ip == IpCovered::Grh => NetworkHeader::Grh,
        IpAddr::V4(_) => NetworkHeader::Ipv4,
        IpAddr::V6(_) => NetworkHeader::Ipv6,
    }
}

/// The network header of a packet with `transport_len` bytes from BTH to ICRC. Fields that the port
/// does not report are 0: time to live or hop limit, flow label, and, if the port is a socket, the
/// identification.
// rule: 9.8.3-grh-space, A17.4.5.2-header-area
pub(super) fn network_header(meta: &RxMeta, transport_len: usize) -> [u8; Grh::LEN] {
    let udp_len = UDP_LEN + transport_len;
    match (meta.src, meta.dst) {
        // rule: A16-ud-grh
        (src, dst) if meta.ip == IpCovered::Grh => Grh {
            traffic_class: meta.traffic_class,
            flow_label: 0,
            payload_len: saturate(transport_len),
            next_header: Grh::NEXT_HEADER_BTH,
            hop_limit: 0,
            sgid: gid(src),
            dgid: gid(dst),
        }
        .to_bytes(),
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut area = [0; Grh::LEN];
            area[Grh::LEN - IPV4_LEN..].copy_from_slice(&ipv4_header(meta, src, dst, udp_len));
            area
        }
        (src, dst) => Grh {
            traffic_class: meta.traffic_class,
            flow_label: 0,
            payload_len: saturate(udp_len),
            next_header: PROTOCOL_UDP,
            hop_limit: 0,
            sgid: gid(src),
            dgid: gid(dst),
        }
        .to_bytes(),
    }
}

/// An IPv4 header with a valid checksum: programs such as libibverbs recognize the version by it.
fn ipv4_header(meta: &RxMeta, src: Ipv4Addr, dst: Ipv4Addr, udp_len: usize) -> [u8; IPV4_LEN] {
    let (id, flags_fragment) = match meta.ip {
        IpCovered::V4 { id, flags_fragment } => (id, flags_fragment),
        IpCovered::V4Hidden | IpCovered::V6 | IpCovered::Grh | IpCovered::OnHost => (0, 0x4000),
    };
    let mut header = [0; IPV4_LEN];
    header[0] = 0x45;
    header[1] = meta.traffic_class;
    header[2..4].copy_from_slice(&saturate(IPV4_LEN + udp_len).to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[6..8].copy_from_slice(&flags_fragment.to_be_bytes());
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let checksum = checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// The Internet checksum of an even number of bytes (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| {
        let high = u32::from(*pair.first().unwrap_or(&0));
        let low = u32::from(*pair.last().unwrap_or(&0));
        high << 8 | low
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Folded to 16 bits just now.
    !(sum as u16)
}

fn saturate(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual textbook example: RFC 1071's sum over a real header.
    #[test]
    fn the_checksum_of_a_known_header() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
    }

    // shows: 9.8.3-grh-space, A17.4.5.2-header-area
    #[test]
    fn an_ipv4_header_lies_in_the_last_20_bytes() {
        let meta = RxMeta {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 1,
            traffic_class: 0x6a,
            ip: IpCovered::V4Hidden,
        };
        let area = network_header(&meta, 100);
        assert_eq!(area[..20], [0; 20]);
        let ip = &area[20..];
        assert_eq!(ip[..4], [0x45, 0x6a, 0, 128]);
        assert_eq!(ip[12..], [10, 0, 0, 1, 10, 0, 0, 2]);
        // The sum over a header with its checksum is zero.
        assert_eq!(checksum(ip), 0);
    }

    // shows: 9.8.3-grh-space, A17.4.5.2-header-area
    #[test]
    fn an_ipv6_header_fills_all() {
        let meta = RxMeta {
            src: "fe80::1".parse().expect("valid"),
            dst: "ff02::9".parse().expect("valid"),
            src_port: 1,
            traffic_class: 2,
            ip: IpCovered::V6,
        };
        let grh = Grh::parse(&network_header(&meta, 100)).expect("a header");
        assert_eq!((grh.traffic_class, grh.payload_len), (2, 108));
        assert_eq!(grh.next_header, 17);
        assert_eq!((grh.sgid[15], grh.dgid[15]), (1, 9));
    }

    /// Programs such as libibverbs recognize RoCE v1 by version 6 and the next header.
    // shows: A16-ud-grh
    #[test]
    fn the_grh_of_roce_v1_names_a_bth_whatever_the_family() {
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
        for (src, sgid) in [
            ("10.0.0.1", mapped),
            (
                "fe80::1",
                "fe80::1"
                    .parse::<std::net::Ipv6Addr>()
                    .expect("valid")
                    .octets(),
            ),
        ] {
            let src: IpAddr = src.parse().expect("valid");
            let meta = RxMeta {
                src,
                dst: src,
                src_port: 0,
                traffic_class: 0x6a,
                ip: IpCovered::Grh,
            };
            let grh = Grh::parse(&network_header(&meta, 100)).expect("a header");
            let expected = Grh {
                traffic_class: 0x6a,
                flow_label: 0,
                payload_len: 100,
                next_header: 0x1b,
                hop_limit: 0,
                sgid,
                dgid: sgid,
            };
            assert_eq!(grh, expected);
        }
    }
}
