use std::net::IpAddr;

use roce_stack::PriorityMap;
use roce_wire::{Frame, NetworkHeader};

use super::*;

const NEAR: Mac = [2, 0, 0, 0, 0, 1];
const FAR: Mac = [2, 0, 0, 0, 0, 2];

fn path(src: &str, dst: &str) -> PathKey {
    PathKey {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        version: RoceVersion::V2,
    }
}

/// Paths of RoCEv2 over IPv4 and IPv6, and of RoCE v1 between addresses of each family.
fn paths() -> [PathKey; 4] {
    let [v4, v6] = [
        path("10.90.0.1", "10.90.0.2"),
        path("fe80::1", "2001:db8::2"),
    ];
    let version = RoceVersion::V1;
    [v4, v6, PathKey { version, ..v4 }, PathKey { version, ..v6 }]
}

fn tag(priority: Priority) -> (VlanTag, Priority) {
    let tpid = 0x8100;
    (VlanTag { tpid, tci: 5 }, priority)
}

fn frame(template: &Template, fields: &PacketFields) -> Vec<u8> {
    let mut frame = vec![0xaa; template.header_len() + fields.transport_len];
    template.write(&mut frame, fields);
    frame
}

/// The parser of the wire crate reads back every variable field, and the checksum is always
/// correct.
// shows: CA17-2-format, CA17-3-header-length, CA17-4-dscp, CA17-6-total-length
// shows: CA17-7-dont-fragment, CA17-8-no-fragments, CA17-9-time-to-live, CA17-11-source
// shows: CA17-12-destination, CA17-13-dscp, CA17-15-payload-length, CA17-17-hop-limit
// shows: CA17-18-source, CA17-19-destination, CA17-21-length, A17.3.2.4-checksum, A16-grh
#[test]
fn headers_contain_the_given_fields() {
    let fields = [
        (1, 0, 1, 49152, 0),
        (20, 0xff, 255, 65535, 0xffff),
        (4112, 0x69, 0, 4791, 0x1234),
        (1452, 0x02, 64, 1, 1),
    ];
    let mut map = PriorityMap::default();
    map.set(0x69 >> 2, 7);
    for path in paths() {
        for tagging in [
            None,
            Some(tag(Priority::FromDscp)),
            Some(tag(Priority::Map(map))),
            Some(tag(Priority::Fixed(3))),
        ] {
            let template = Template::new(path, NEAR, FAR, tagging, 9000).unwrap();
            for (transport_len, traffic_class, hop_limit, src_port, id) in fields {
                let fields = PacketFields {
                    transport_len,
                    traffic_class,
                    hop_limit,
                    src_port,
                    id,
                };
                let bytes = frame(&template, &fields);
                check(&bytes, path, tagging, &fields);
            }
        }
    }
}

fn check(bytes: &[u8], path: PathKey, tagging: Option<(VlanTag, Priority)>, fields: &PacketFields) {
    let parsed = Frame::parse_ethernet(bytes).unwrap();
    let link = parsed.link.unwrap();
    assert_eq!((link.src, link.dst), (NEAR, FAR));
    let found = link.vlans[0].map(|tag| (tag.vid(), tag.priority()));
    let wanted = tagging.map(|(_, priority)| (5, priority.of(fields.traffic_class)));
    assert_eq!(found, wanted);
    assert_eq!(link.vlans[1], None);
    let hops = if fields.hop_limit == 0 {
        64
    } else {
        fields.hop_limit
    };
    let (src, dst, class, limit) = match parsed.network {
        NetworkHeader::V4 {
            src,
            dst,
            tos,
            ttl,
            id,
            flags_fragment,
            options,
        } => {
            assert_eq!((id, flags_fragment, options), (fields.id, 0x4000, &[][..]));
            let at = bytes.len() - fields.transport_len - 28;
            assert!(checksum_holds(&bytes[at..at + 20]));
            (IpAddr::from(src), IpAddr::from(dst), tos, ttl)
        }
        NetworkHeader::V6 {
            src,
            dst,
            traffic_class,
            flow_label,
            hop_limit,
        } => {
            assert_eq!(flow_label, 0);
            (src.into(), dst.into(), traffic_class, hop_limit)
        }
        NetworkHeader::Grh(grh) => {
            assert_eq!(path.version, RoceVersion::V1);
            assert_eq!((grh.flow_label, grh.next_header), (0, 0x1b));
            assert_eq!(usize::from(grh.payload_len), fields.transport_len);
            let [src, dst] = [grh.sgid, grh.dgid].map(|gid| IpAddr::from(gid).to_canonical());
            (src, dst, grh.traffic_class, grh.hop_limit)
        }
    };
    assert_eq!((src, dst), (path.src, path.dst));
    assert_eq!((class, limit), (fields.traffic_class, hops));
    let udp = parsed
        .udp
        .map(|udp| (udp.src_port, udp.dst_port, udp.checksum));
    let expected = (path.version == RoceVersion::V2).then_some((fields.src_port, 4791, 0));
    assert_eq!(udp, expected);
    assert_eq!(parsed.transport.len(), fields.transport_len);
}

#[test]
fn the_largest_packet_fits_the_mtu() {
    for (path, headers) in paths().into_iter().zip([28, 48, 40, 40]) {
        for (mtu, longest) in [
            (1500, 1500),
            (9000, 9000),
            (68, 68),
            (20, 28),
            (1 << 20, 65535),
        ] {
            let template = Template::new(path, NEAR, FAR, None, mtu).unwrap();
            let expected = usize::saturating_sub(longest, headers);
            assert_eq!(template.max_transport(), expected, "MTU {mtu}");
        }
        let template = Template::new(path, NEAR, FAR, None, 1 << 20).unwrap();
        let fields = PacketFields {
            transport_len: template.max_transport(),
            traffic_class: 0,
            hop_limit: 0,
            src_port: 4791,
            id: 0,
        };
        let bytes = frame(&template, &fields);
        check(&bytes, path, None, &fields);
    }
}

#[test]
#[should_panic(expected = "expected at most 1472")]
fn a_packet_longer_than_the_mtu_is_not_written() {
    let template = Template::new(paths()[0], NEAR, FAR, None, 1500).unwrap();
    let fields = PacketFields {
        transport_len: 1473,
        traffic_class: 0,
        hop_limit: 0,
        src_port: 4791,
        id: 0,
    };
    template.write(&mut [0; 2000], &fields);
}

#[test]
fn a_moved_neighbour_changes_only_the_first_six_bytes() {
    let mut template = Template::new(paths()[0], NEAR, [0; 6], None, 1500).unwrap();
    let waiting = template.clone();
    template.set_dst(FAR);
    assert_eq!(template.dst(), FAR);
    let fields = PacketFields {
        transport_len: 20,
        traffic_class: 2,
        hop_limit: 0,
        src_port: 4791,
        id: 0,
    };
    let mut held = frame(&waiting, &fields);
    assert_ne!(held, frame(&template, &fields));
    Template::readdress(&mut held, FAR);
    assert_eq!(held, frame(&template, &fields));
    // A truncated frame does not change.
    Template::readdress(&mut [0; 5], FAR);
}

#[test]
fn families_do_not_mix() {
    for mixed in [path("10.0.0.1", "::1"), path("::1", "10.0.0.1")] {
        for version in [RoceVersion::V1, RoceVersion::V2] {
            let mixed = PathKey { version, ..mixed };
            assert_eq!(Template::new(mixed, NEAR, FAR, None, 1500), None);
        }
    }
}

#[test]
fn the_covered_fields_are_the_written_ones() {
    let templates = paths().map(|path| Template::new(path, NEAR, FAR, None, 1500).unwrap());
    let [v4, v6, grhs @ ..] = templates;
    let flags_fragment = 0x4000;
    assert_eq!(
        v4.covered(7),
        IpCovered::V4 {
            id: 7,
            flags_fragment
        }
    );
    assert_eq!(v6.covered(7), IpCovered::V6);
    for grh in grhs {
        assert_eq!(grh.covered(7), IpCovered::Grh);
    }
}

/// The checksum of UDP over IPv6 by its definition (RFC 8200, 8.1): the sum over pseudo header and
/// packet, including the checksum field.
fn reference_sum(ip: &[u8]) -> u16 {
    let udp = &ip[40..];
    let pseudo = [
        &ip[8..40],
        &(udp.len() as u32).to_be_bytes(),
        &[0, 0, 0, 17],
    ]
    .concat();
    let odd = [udp, &[0; 1]].concat();
    let packet = if udp.len().is_multiple_of(2) {
        udp
    } else {
        &odd
    };
    let words = pseudo.chunks(2).chain(packet.chunks(2));
    words.fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], word[1]]));
        sum + u16::from(carry)
    })
}

// shows: A17.3.2.4-checksum
#[test]
fn an_ipv6_checksum_is_correct_in_software_and_hardware() {
    let [over4, over6, v1_over4, v1_over6] = paths();
    for tagging in [None, Some(tag(Priority::FromDscp))] {
        for path in [over4, v1_over4, v1_over6] {
            let none = Template::new(path, NEAR, FAR, tagging, 9000).unwrap();
            assert_eq!(none.udp_checksum(), None);
        }
        let template = Template::new(over6, NEAR, FAR, tagging, 9000).unwrap();
        let at = template.udp_checksum().expect("over IPv6");
        assert_eq!(usize::from(at.start), template.header_len() - 8);
        for transport_len in [1, 16, 17, 1039, 4112, 8952] {
            let fields = PacketFields {
                transport_len,
                traffic_class: 0x69,
                hop_limit: 3,
                src_port: 4791,
                id: 0,
            };
            let mut bytes = frame(&template, &fields);
            let place = usize::from(at.start + at.offset);
            assert_eq!(bytes[place..place + 2], [0, 0], "none unless asked for");
            template.begin_checksum(&mut bytes, transport_len);
            let begun = bytes.clone();
            Template::end_checksum(&mut bytes, at);
            let ip = template.header_len() - 48;
            assert_eq!(reference_sum(&bytes[ip..]), 0xffff, "{transport_len}");
            assert_ne!(bytes[place..place + 2], [0, 0]);
            // Do the work of a device: write the complement of the sum from `start` on to `start +
            // offset`.
            let sum = checksum::fold(checksum::sum(&begun[usize::from(at.start)..]));
            assert_eq!(bytes[place..place + 2], (!sum).to_be_bytes());
        }
    }
}

/// A sum of 0 would mean that there is no checksum (RFC 768).
#[test]
fn a_checksum_over_ipv6_is_never_zero() {
    let [_, over6, ..] = paths();
    let template = Template::new(over6, NEAR, FAR, None, 9000).unwrap();
    let at = template.udp_checksum().expect("over IPv6");
    let fields = PacketFields {
        transport_len: 16,
        traffic_class: 0,
        hop_limit: 0,
        src_port: 4791,
        id: 0,
    };
    let mut bytes = frame(&template, &fields);
    template.begin_checksum(&mut bytes, 16);
    let last = bytes.len() - 2;
    bytes[last..].fill(0);
    // The difference to a sum with all bits set.
    let missing = !checksum::fold(checksum::sum(&bytes[usize::from(at.start)..]));
    bytes[last..].copy_from_slice(&missing.to_be_bytes());
    Template::end_checksum(&mut bytes, at);
    let place = usize::from(at.start + at.offset);
    assert_eq!(bytes[place..place + 2], [0xff, 0xff]);
}
