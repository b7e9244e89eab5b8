use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::Numbers;
use crate::vectors::{CNP, UC_V4, UC_V6, V1_ACK, unhex};
use crate::{Opcode, Reason};

/// The bytes of `repr`'s frame around `transport`.
fn emit(repr: &FrameRepr<'_>, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xaa; repr.buffer_len(transport.len())];
    assert_eq!(repr.emit(&mut frame, transport), frame.len());
    frame
}

/// Changes a frame and returns the error that results.
fn error_of(hex: &str, change: impl FnOnce(&mut Vec<u8>)) -> ParseError {
    let mut frame = unhex(hex);
    change(&mut frame);
    Frame::parse_ethernet(&frame).unwrap_err()
}

fn tag(tpid: u16, tci: u16) -> VlanTag {
    VlanTag { tpid, tci }
}

// shows: A17.2.3-vlan
// trap: legal-frames
#[test]
fn up_to_two_vlan_tags() {
    let bytes = unhex(UC_V4);
    let plain = Frame::parse_ethernet(&bytes).unwrap();
    for vlans in [
        [None, None],
        [Some(tag(0x8100, 0x6005)), None],
        [Some(tag(0x88a8, 0x1002)), Some(tag(0x8100, 0x0fff))],
    ] {
        let mut repr = plain.repr();
        repr.link.as_mut().unwrap().vlans = vlans;
        let tagged = emit(&repr, plain.transport);
        let tags = vlans.iter().flatten().count();
        assert_eq!(tagged.len(), bytes.len() + 4 * tags);
        let frame = Frame::parse_ethernet(&tagged).unwrap();
        assert_eq!(frame.link.unwrap().vlans, vlans);
        assert_eq!(frame.network, plain.network);
        assert_eq!(frame.transport, plain.transport);
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
    }
}

#[test]
fn vlan_tag_fields() {
    let tag = tag(0x8100, 0x7005);
    assert_eq!(
        (tag.priority(), tag.drop_eligible(), tag.vid()),
        (3, true, 5)
    );
}

#[test]
fn a_third_vlan_tag_is_refused() {
    let error = error_of(UC_V4, |frame| {
        for _ in 0..3 {
            frame.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
        }
    });
    assert_eq!((error.layer, error.field), (Layer::Ethernet, "ethertype"));
}

#[test]
fn a_cut_vlan_tag_is_refused() {
    for len in 0..4 {
        let error = error_of(UC_V4, |frame| {
            frame[12..14].copy_from_slice(&[0x81, 0x00]);
            frame.truncate(14 + len);
        });
        assert_eq!(error.layer, Layer::Vlan);
    }
}

// shows: CA17-1-families
#[test]
fn packets_without_a_link_header() {
    for (hex, ethertype) in [(UC_V4, 0x0800), (UC_V6, 0x86dd), (V1_ACK, 0x8915)] {
        let bytes = unhex(hex);
        let whole = Frame::parse_ethernet(&bytes).unwrap();
        let cooked = Frame::parse_l3(ethertype, &bytes[14..]).unwrap();
        assert_eq!(
            cooked,
            Frame {
                link: None,
                ..whole
            }
        );
        assert_eq!(emit(&cooked.repr(), cooked.transport), &bytes[14..]);
        if ethertype != 0x8915 {
            assert_eq!(Frame::parse_ip(&bytes[14..]), Ok(cooked));
        }
    }
    Frame::parse_ip(&[]).unwrap_err();
    Frame::parse_ip(&[0x50; 60]).unwrap_err();
}

#[test]
fn other_ethertypes_are_refused() {
    let error = Frame::parse_l3(0x0806, &[0; 60]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Ethernet ethertype: found 0x806, expected 0x800 (IPv4), 0x86dd (IPv6) or 0x8915 (RoCE v1)"
    );
}

// shows: CA17-21-length
// trap: link-padding
#[test]
fn what_a_link_pads_short_frames_with_is_cut_off() {
    for hex in [CNP, UC_V4, UC_V6, V1_ACK] {
        let mut bytes = unhex(hex);
        let transport = Frame::parse_ethernet(&bytes).unwrap().transport.to_vec();
        bytes.extend([0x5a; 18]);
        let frame = Frame::parse_ethernet(&bytes).unwrap();
        assert_eq!(frame.transport, transport);
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
    }
}

/// Bytes between the end of the UDP datagram and that of the IP packet don't belong to the payload
/// either, but the IP length that the ICRC covers includes them.
// shows: CA17-21-length
// trap: link-padding
#[test]
fn the_udp_length_bounds_the_transport() {
    let mut bytes = unhex(UC_V4);
    let transport = Frame::parse_ethernet(&bytes).unwrap().transport.to_vec();
    bytes.extend([0x5a; 4]);
    bytes[17] += 4;
    let frame = Frame::parse_ethernet(&bytes).unwrap();
    assert_eq!(frame.transport, transport);
    assert!(matches!(frame.icrc_verdict(), IcrcVerdict::Invalid(_)));
}

// shows: CA17-3-header-length
#[test]
fn ipv4_options_are_accepted_and_covered() {
    let mut numbers = Numbers(50);
    let bytes = unhex(UC_V4);
    let plain = Frame::parse_ethernet(&bytes).unwrap();
    let mut repr = plain.repr();
    let stored = [1; 8];
    if let NetworkHeader::V4 { options, .. } = &mut repr.network {
        *options = &stored;
    }
    assert_eq!(repr.network.ip_header(), None);
    let mut transport = plain.transport.to_vec();
    let mut with_options = emit(&repr, &transport);
    let frame = Frame::parse_ethernet(&with_options).unwrap();
    assert_eq!(frame.repr(), repr);
    let IcrcVerdict::Invalid(IcrcMismatch { computed, .. }) = frame.icrc_verdict() else {
        panic!("the ICRC does not cover options");
    };
    let icrc_at = transport.len() - ICRC_LEN;
    transport[icrc_at..].copy_from_slice(&computed.to_le_bytes());
    with_options = emit(&repr, &transport);
    let frame = Frame::parse_ethernet(&with_options).unwrap();
    assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
    let at = 14 + 20 + (numbers.next() % 8) as usize;
    with_options[at] ^= 0x10;
    let frame = Frame::parse_ethernet(&with_options).unwrap();
    assert!(matches!(frame.icrc_verdict(), IcrcVerdict::Invalid(_)));
}

// shows: CA17-8-no-fragments
#[test]
fn fragments_are_refused() {
    for flags_fragment in [0x2000_u16, 0x6000, 0x0001, 0x4001, 0x1fff] {
        let error = error_of(UC_V4, |frame| {
            frame[20..22].copy_from_slice(&flags_fragment.to_be_bytes());
        });
        assert_eq!(error.layer, Layer::Ipv4);
        assert_eq!(error.reason, Reason::Fragment { flags_fragment });
    }
}

// shows: CA17-10-protocol, CA17-16-next-header
#[test]
fn other_protocols_are_refused() {
    let error = error_of(UC_V4, |frame| frame[23] = 6);
    assert_eq!((error.layer, error.field), (Layer::Ipv4, "protocol"));
    // A hop-by-hop header.
    let error = error_of(UC_V6, |frame| frame[20] = 0);
    assert_eq!((error.layer, error.field), (Layer::Ipv6, "next header"));
    let error = error_of(V1_ACK, |frame| frame[20] = 17);
    assert_eq!((error.layer, error.field), (Layer::Grh, "next header"));
}

// shows: CA17-27-version
#[test]
fn other_versions_are_refused() {
    for (hex, layer, byte) in [
        (UC_V4, Layer::Ipv4, 0x65),
        (UC_V6, Layer::Ipv6, 0x40),
        (V1_ACK, Layer::Grh, 0x40),
    ] {
        let error = error_of(hex, |frame| frame[14] = byte);
        assert_eq!((error.layer, error.field), (layer, "version"));
    }
}

// shows: CA17-20-port
#[test]
fn other_ports_are_refused() {
    let error = error_of(UC_V4, |frame| {
        frame[36..38].copy_from_slice(&8000_u16.to_be_bytes());
    });
    assert_eq!(
        error.to_string(),
        "UDP destination port: found 0x1f40, expected 0x12b7 (4791)"
    );
}

#[test]
fn lengths_that_do_not_fit_are_refused_by_name() {
    let cases: [(&str, usize, u16, Layer, &str); 7] = [
        (UC_V4, 16, 19, Layer::Ipv4, "total length"),
        (UC_V4, 16, 65, Layer::Ipv4, "total length"),
        (UC_V4, 38, 7, Layer::Udp, "length"),
        (UC_V4, 38, 45, Layer::Udp, "length"),
        (UC_V6, 18, 45, Layer::Ipv6, "payload length"),
        (UC_V6, 58, 45, Layer::Udp, "length"),
        (V1_ACK, 18, 21, Layer::Grh, "payload length"),
    ];
    for (hex, at, len, layer, field) in cases {
        let error = error_of(hex, |frame| {
            frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
        });
        assert_eq!((error.layer, error.field), (layer, field), "{len}");
        assert!(
            matches!(
                error.reason,
                Reason::TooLarge { found, .. } | Reason::TooSmall { found, .. }
                    if found == u32::from(len)
            ),
            "{error}"
        );
    }
    let error = error_of(UC_V4, |frame| frame[14] = 0x44);
    assert_eq!((error.layer, error.field), (Layer::Ipv4, "header length"));
}

#[test]
fn a_datagram_too_short_for_an_icrc_has_none() {
    let bytes = unhex(UC_V4);
    let frame = Frame::parse_ethernet(&bytes).unwrap();
    for len in 0..4 {
        let short = emit(&frame.repr(), &frame.transport[..len]);
        let frame = Frame::parse_ethernet(&short).unwrap();
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Missing);
        frame.packet().unwrap_err();
    }
}

#[test]
fn verdicts_agree_with_the_fast_way() {
    let mut numbers = Numbers(51);
    for _ in 0..500 {
        let network = if numbers.flag() {
            NetworkHeader::V4 {
                src: numbers.array(),
                dst: numbers.array(),
                tos: numbers.word() as u8,
                ttl: numbers.word() as u8,
                id: numbers.word() as u16,
                flags_fragment: numbers.word() as u16 & 0xc000,
                options: &[],
            }
        } else {
            NetworkHeader::V6 {
                src: numbers.array(),
                dst: numbers.array(),
                traffic_class: numbers.word() as u8,
                flow_label: numbers.word() & 0x000f_ffff,
                hop_limit: numbers.word() as u8,
            }
        };
        let src_port = numbers.word() as u16;
        let repr = FrameRepr {
            link: None,
            network,
            udp: Some(UdpHeader {
                src_port,
                dst_port: UDP_PORT,
                checksum: numbers.word() as u16,
            }),
        };
        let len = (numbers.next() % 300) as usize + 4;
        let mut transport = numbers.bytes(len);
        icrc::seal(
            &network.ip_header().unwrap(),
            src_port,
            UDP_PORT,
            &mut transport,
        );
        let bytes = emit(&repr, &transport);
        let frame = Frame::parse_ip(&bytes).unwrap();
        assert_eq!(frame.repr(), repr);
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid, "{frame:?}");
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let repr = FrameRepr {
        link: None,
        network: NetworkHeader::V4 {
            src: [0; 4],
            dst: [0; 4],
            tos: 0,
            ttl: 64,
            id: 0,
            flags_fragment: 0,
            options: &[],
        },
        udp: None,
    };
    // The protocol and twice the length add up to 17 + 2 * 12. The payload is the difference to
    // 0xffff.
    let rest = 0xffff_u16 - 17 - 24;
    let [high, low] = rest.to_be_bytes();
    assert_eq!(repr.udp_checksum(&[high, low, 0, 0]), Some(0xffff));
    assert_eq!(repr.udp_checksum(&[high, low, 0, 1]), Some(0xfffe));
}

// shows: A17.3.2.1-source-port, A17.9.3-cnp-taken
// trap: unasked-cnps
#[test]
fn a_cnp_is_taken_whatever_its_marks_and_source_port() {
    let bytes = unhex(CNP);
    let frame = Frame::parse_ethernet(&bytes).unwrap();
    assert_eq!(frame.udp.unwrap().src_port, 0);
    let packet = frame.packet().unwrap();
    assert_eq!(packet.bth.opcode, Opcode::CNP);
    let mut unmarked = frame.transport.to_vec();
    unmarked[4] = 0;
    let unmarked = emit(&frame.repr(), &unmarked);
    let frame = Frame::parse_ethernet(&unmarked).unwrap();
    assert!(!frame.packet().unwrap().bth.becn);
    assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
}

#[test]
#[should_panic(expected = "expected at most 65535")]
fn a_frame_that_is_too_long_is_not_emitted() {
    let bytes = unhex(UC_V4);
    let frame = Frame::parse_ethernet(&bytes).unwrap();
    emit(&frame.repr(), &vec![0; 65_508]);
}
