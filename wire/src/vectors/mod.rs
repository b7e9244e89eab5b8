//! Whole frames of other implementations, hardware and software, in hex.

use std::vec;
use std::vec::Vec;

mod peers;

use crate::testing::emit;
use crate::{
    Aeth, Bth, Credits, ETHERTYPE_ROCE_V1, ExtHeaders, Frame, FrameRepr, Grh, IcrcVerdict, Link,
    NetworkHeader, Opcode, PacketRepr, Psn, Qpn, Reth, Syndrome, UdpHeader, icrc,
};

/// A CNP from a ConnectX-4 Lx (scapy, test/contrib/roce.uts).
pub(crate) const CNP: &str = "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a";
/// RoCE v1, an RC RDMA WRITE Only of 5 bytes from Mellanox hardware (scapy, test/contrib/roce.uts).
pub(crate) const V1_WRITE: &str = "7cfe90753cd87cfe90753cd889156020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000020a70ffff0000010a80a788bc000055d4c0726000000047b3000000050000000001000000e3d856bb";
/// RoCE v1, an RC Acknowledge from Mellanox hardware (scapy, test/contrib/roce.uts).
pub(crate) const V1_ACK: &str = "7cfe90753cd87cfe90753cd889156020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000021140ffff0000010900a788c00000000525f0c038";
/// A UC SEND Only over IPv4 from scapy (test/contrib/roce.uts).
pub(crate) const UC_V4: &str = "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3";
/// A UC SEND Only over IPv6 from scapy (test/contrib/roce.uts).
pub(crate) const UC_V6: &str = "248a07a8fa22248a07a8fa2286dd6e21face002c11ff2022000000000000000000000000102320230000000000000000000000001024c00012b7002ce7c52460ffff000000d300cf17104630818be28935d90e9a95505401be885e5000003e5b743b";

/// All frames of this module, with their names.
pub(crate) const ALL: [(&str, &str); 5] = [
    ("CNP", CNP),
    ("V1_WRITE", V1_WRITE),
    ("V1_ACK", V1_ACK),
    ("UC_V4", UC_V4),
    ("UC_V6", UC_V6),
];

/// The bytes of a hex string.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

/// The contents of each frame, decoded by hand: headers, the rest of the transport packet and the
/// payload.
fn contents(name: &str) -> (FrameRepr<'static>, PacketRepr, Vec<u8>) {
    let mellanox_v1 = |payload_len| {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 15, 0, 0, 2]);
        FrameRepr {
            link: Some(Link {
                dst: [0x7c, 0xfe, 0x90, 0x75, 0x3c, 0xd8],
                src: [0x7c, 0xfe, 0x90, 0x75, 0x3c, 0xd8],
                vlans: [None; 2],
            }),
            network: NetworkHeader::Grh(Grh {
                traffic_class: 2,
                flow_label: 0,
                payload_len,
                next_header: Grh::NEXT_HEADER_BTH,
                hop_limit: 64,
                sgid: gid,
                dgid: gid,
            }),
            udp: None,
        }
    };
    let scapy = |network, checksum| FrameRepr {
        link: Some(Link {
            dst: [0x24, 0x8a, 0x07, 0xa8, 0xfa, 0x22],
            src: [0x24, 0x8a, 0x07, 0xa8, 0xfa, 0x22],
            vlans: [None; 2],
        }),
        network,
        udp: Some(UdpHeader {
            src_port: 0xc000,
            dst_port: 4791,
            checksum,
        }),
    };
    let bth = |opcode, qpn, psn| Bth::new(opcode, Qpn::from_bits(qpn), Psn::new(psn));
    let uc = PacketRepr {
        bth: bth(Opcode::UC_SEND_ONLY, 0xd3, 0xcf1710),
        ext: ExtHeaders::NONE,
    };
    let uc_payload = unhex("4630818be28935d90e9a95505401be885e50");
    match name {
        "CNP" => (
            FrameRepr {
                link: Some(Link {
                    dst: [0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2],
                    src: [0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32],
                    vlans: [None; 2],
                }),
                network: NetworkHeader::V4 {
                    src: [10, 0, 17, 1],
                    dst: [10, 0, 18, 1],
                    tos: 0xc2,
                    ttl: 64,
                    id: 0x718c,
                    flags_fragment: 0x4000,
                    options: &[],
                },
                udp: Some(UdpHeader {
                    src_port: 0,
                    dst_port: 4791,
                    checksum: 0,
                }),
            },
            PacketRepr {
                bth: Bth {
                    mig_req: false,
                    becn: true,
                    ..bth(Opcode::CNP, 0x118, 0)
                },
                ext: ExtHeaders::NONE,
            },
            Vec::new(),
        ),
        "V1_WRITE" => (
            mellanox_v1(40),
            PacketRepr {
                bth: Bth {
                    ack_req: true,
                    ..bth(Opcode::RC_WRITE_ONLY, 0x10a, 0xa788bc)
                },
                ext: ExtHeaders {
                    reth: Some(Reth {
                        va: 0x55d4_c072_6000,
                        rkey: 0x47b3,
                        dma_len: 5,
                    }),
                    ..ExtHeaders::NONE
                },
            },
            vec![0, 0, 0, 0, 1],
        ),
        "V1_ACK" => (
            mellanox_v1(20),
            PacketRepr {
                bth: bth(Opcode::RC_ACKNOWLEDGE, 0x109, 0xa788c0),
                ext: ExtHeaders {
                    aeth: Some(Aeth {
                        syndrome: Syndrome::Ack(Credits::from_count(0)),
                        msn: 5,
                    }),
                    ..ExtHeaders::NONE
                },
            },
            Vec::new(),
        ),
        "UC_V4" => (
            scapy(
                NetworkHeader::V4 {
                    src: [192, 168, 0, 7],
                    dst: [192, 168, 0, 7],
                    tos: 1,
                    ttl: 64,
                    id: 0x0478,
                    flags_fragment: 0x4000,
                    options: &[],
                },
                0xaca2,
            ),
            uc,
            uc_payload,
        ),
        "UC_V6" => (
            scapy(
                NetworkHeader::V6 {
                    src: [0x20, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x23],
                    dst: [0x20, 0x23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x24],
                    traffic_class: 226,
                    flow_label: 0x1face,
                    hop_limit: 255,
                },
                0xe7c5,
            ),
            uc,
            uc_payload,
        ),
        _ => panic!("{name}: nothing is known of its contents"),
    }
}

// shows: A16-ethertype, A17.3.2.4-checksum, CA17-22-cover, CA17-22-ones, A17.9.3-cnp-opcode
// trap: icrc-masks
#[test]
fn all_parse_to_what_they_hold_and_verify() {
    for (name, hex) in ALL {
        let bytes = unhex(hex);
        let frame = Frame::parse_ethernet(&bytes).expect(name);
        let packet = frame.packet().expect(name);
        let (frame_repr, mut packet_repr, payload) = contents(name);
        packet_repr.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
        assert_eq!(frame.repr(), frame_repr, "{name}");
        assert_eq!(packet.repr(), packet_repr, "{name}");
        assert_eq!(packet.payload, payload, "{name}");
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid, "{name}");
        let stored = *bytes.last_chunk().unwrap();
        assert_eq!(packet.icrc, u32::from_le_bytes(stored), "{name}");
    }
}

// shows: A16-icrc, CA17-2-format, CA17-20-port
#[test]
fn all_are_emitted_again_bit_for_bit() {
    for (name, hex) in ALL {
        let (frame, packet, payload) = contents(name);
        let mut transport = emit(&packet, &payload);
        match (frame.network, frame.network.ip_header()) {
            (_, Some(ip)) => {
                // RoCE v1 has no ports, and the values that are passed don't matter.
                let ports = frame.udp.map_or((1, 2), |udp| (udp.src_port, udp.dst_port));
                icrc::seal(&ip, ports.0, ports.1, &mut transport);
                assert_eq!(icrc::verify(&ip, ports.0, ports.1, &transport), Ok(()));
            }
            (network, None) => panic!("{name}: {network:?}"),
        }
        let mut bytes = vec![0xaa; frame.buffer_len(transport.len())];
        assert_eq!(frame.emit(&mut bytes, &transport), bytes.len());
        assert_eq!(bytes, unhex(hex), "{name}");
    }
}

#[test]
fn udp_checksums_are_those_that_scapy_computed() {
    for (name, hex) in [("UC_V4", UC_V4), ("UC_V6", UC_V6)] {
        let bytes = unhex(hex);
        let frame = Frame::parse_ethernet(&bytes).unwrap();
        let computed = frame.repr().udp_checksum(frame.transport);
        assert_eq!(computed, Some(frame.udp.unwrap().checksum), "{name}");
    }
}

/// The bits of a frame that the ICRC does not cover, as masks by offset: the Ethernet header, the
/// fields that routers change, and byte 4 of the BTH.
fn uncovered(bytes: &[u8]) -> Vec<u8> {
    const ETHERNET: usize = 14;
    let mut mask = vec![0; bytes.len()];
    mask[..ETHERNET].fill(0xff);
    let ethertype = u16::from_be_bytes([bytes[12], bytes[13]]);
    let bth = match ethertype {
        0x0800 => {
            for byte in [1, 8, 10, 11, 26, 27] {
                mask[ETHERNET + byte] = 0xff;
            }
            ETHERNET + 28
        }
        0x86dd | ETHERTYPE_ROCE_V1 => {
            mask[ETHERNET] = 0x0f;
            for byte in [1, 2, 3, 7] {
                mask[ETHERNET + byte] = 0xff;
            }
            if ethertype == ETHERTYPE_ROCE_V1 {
                ETHERNET + 40
            } else {
                mask[ETHERNET + 46..ETHERNET + 48].fill(0xff);
                ETHERNET + 48
            }
        }
        other => panic!("{other:#x}"),
    };
    mask[bth + 4] = 0xff;
    mask
}

// shows: CA17-22-masked-ipv4, CA17-22-masked-ipv6, CA17-22-masked-udp
#[test]
fn a_flipped_bit_is_found_exactly_if_it_is_covered() {
    for (name, hex) in ALL {
        let mut bytes = unhex(hex);
        let uncovered = uncovered(&bytes);
        for bit in 0..8 * bytes.len() {
            let (at, mask) = (bit / 8, 1 << (bit % 8));
            bytes[at] ^= mask;
            match Frame::parse_ethernet(&bytes) {
                Ok(frame) => {
                    let valid = frame.icrc_verdict() == IcrcVerdict::Valid;
                    assert_eq!(valid, uncovered[at] & mask != 0, "{name} byte {at}");
                }
                // The ICRC does not cover the EtherType, but it must be valid.
                Err(error) => assert!(
                    uncovered[at] & mask == 0 || (12..14).contains(&at),
                    "{name} byte {at}: {error}"
                ),
            }
            bytes[at] ^= mask;
        }
    }
}

/// Checks the ICRC as for a packet from a socket, which reports nothing of the IPv4 header but the
/// addresses.
#[test]
fn hidden_fields_may_change_and_others_may_not() {
    for hex in [CNP, UC_V4] {
        let mut bytes = unhex(hex);
        let uncovered = uncovered(&bytes);
        let (id, flags) = ([18, 19], [20, 21]);
        for bit in 8 * 14..8 * bytes.len() {
            let (at, mask) = (bit / 8, 1 << (bit % 8));
            // A socket never delivers a packet with these changed.
            let by_kernel = (14..18).contains(&at) || flags.contains(&at) || at == 23;
            if by_kernel || (36..40).contains(&at) {
                continue;
            }
            bytes[at] ^= mask;
            let src = *bytes[26..].first_chunk().unwrap();
            let dst = *bytes[30..].first_chunk().unwrap();
            let src_port = u16::from_be_bytes([bytes[34], bytes[35]]);
            let verdict = icrc::verify_hidden_v4(src, dst, src_port, 4791, &bytes[42..]);
            let may_change = uncovered[at] & mask != 0 || id.contains(&at);
            assert_eq!(verdict.is_ok(), may_change, "byte {at}");
            bytes[at] ^= mask;
        }
        let found = icrc::verify_hidden_v4(
            *bytes[26..].first_chunk().unwrap(),
            *bytes[30..].first_chunk().unwrap(),
            u16::from_be_bytes([bytes[34], bytes[35]]),
            4791,
            &bytes[42..],
        )
        .unwrap();
        assert_eq!(found.id, u16::from_be_bytes([bytes[18], bytes[19]]));
        assert!(found.dont_fragment);
    }
}

#[test]
fn every_truncation_is_an_error() {
    for (name, hex) in ALL {
        let bytes = unhex(hex);
        for len in 0..bytes.len() {
            assert!(
                Frame::parse_ethernet(&bytes[..len]).is_err(),
                "{name} {len}"
            );
        }
    }
}
