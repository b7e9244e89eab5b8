use std::net::IpAddr;

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

/// Over IPv4, IPv6, and both families' GRHs of RoCE v1.
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

/// Every field that changes comes out as it went in, by way of the parser of the wire
/// crate, and the checksum is right for all of them.
// shows: A17.3.2-length, A17.3.2-checksum, A17.3.2-dont-fragment, A16-grh
#[test]
fn headers_say_what_they_were_given() {
    let fields = [
        (1, 0, 1, 49152, 0),
        (20, 0xff, 255, 65535, 0xffff),
        (4112, 0x69, 0, 4791, 0x1234),
        (1452, 0x02, 64, 1, 1),
    ];
    for path in paths() {
        for tagging in [
            None,
            Some(tag(Priority::FromDscp)),
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
fn a_moved_neighbour_changes_the_first_six_bytes_alone() {
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
    // A frame that is none is left alone.
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
fn what_the_icrc_covers_is_what_is_written() {
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
