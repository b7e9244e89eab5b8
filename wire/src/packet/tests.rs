use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::{Numbers, emit, legal_lengths};
use crate::{Opcode, Psn, QKey, Qpn, Syndrome};

// shows: 9.2.1-headers-of-opcode, 9.2.4-pad-count, 9.2.4-pad-removed
#[test]
fn every_opcode_makes_the_round_trip() {
    let mut numbers = Numbers(4);
    for opcode in Opcode::all() {
        for &len in legal_lengths(opcode.info().payload) {
            let repr = numbers.repr(opcode);
            let payload = numbers.bytes(len);
            let transport = emit(&repr, &payload);
            let packet = Packet::parse(&transport).expect("legal");
            let pad = (4 - len % 4) % 4;
            assert_eq!(usize::from(packet.bth.pad), pad, "{opcode} {len}");
            assert_eq!(
                packet.bth,
                Bth {
                    pad: pad as u8,
                    ..repr.bth
                }
            );
            assert_eq!(packet.ext, repr.ext, "{opcode} {len}");
            assert_eq!(packet.payload, payload, "{opcode} {len}");
            assert_eq!(emit(&packet.repr(), &payload), transport, "{opcode} {len}");
        }
    }
}

// shows: 9.2.4-pad-zero, A17.9.3-cnp-reserved
#[test]
fn headers_and_padding_are_written_over_what_was_there() {
    let repr = PacketRepr {
        bth: Bth::new(Opcode::CNP, Qpn::from_bits(1), Psn::ZERO),
        ext: ExtHeaders::NONE,
    };
    let mut buf = [0xff; 12 + CNP_RESERVED_LEN + ICRC_LEN];
    assert_eq!(repr.emit_headers(&mut buf, 0), 28);
    assert_eq!(buf[12..28], [0; CNP_RESERVED_LEN]);

    let repr = PacketRepr {
        bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::from_bits(1), Psn::ZERO),
        ext: ExtHeaders::NONE,
    };
    let mut buf = [0xff; 12 + 8 + ICRC_LEN];
    assert_eq!(repr.emit_headers(&mut buf, 5), 12);
    assert_eq!(buf[12..17], [0xff; 5], "the payload is the caller's");
    assert_eq!(buf[17..20], [0; 3]);
    assert_eq!(buf[20..], [0xff; 4], "and so is the ICRC");
}

#[test]
fn missing_headers_are_defaults_and_others_are_not_written() {
    let surplus = ExtHeaders {
        reth: Some(Reth::default()),
        ..ExtHeaders::NONE
    };
    let repr = PacketRepr {
        bth: Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::from_bits(1), Psn::ZERO),
        ext: surplus,
    };
    let transport = emit(&repr, &[]);
    assert_eq!(transport.len(), 12 + 4 + 4);
    let packet = Packet::parse(&transport).unwrap();
    assert_eq!(packet.ext.reth, None);
    assert_eq!(packet.ext.aeth.unwrap().syndrome, Syndrome::default());
}

// shows: 9.6.1-malformed
#[test]
fn every_truncation_is_refused_or_shortens_the_payload() {
    let mut numbers = Numbers(5);
    for opcode in Opcode::all() {
        let len = legal_lengths(opcode.info().payload)[0];
        let repr = numbers.repr(opcode);
        let transport = emit(&repr, &numbers.bytes(len));
        for cut in 0..transport.len() {
            match Packet::parse(&transport[..cut]) {
                // Only the UDP length determines the end of a packet.
                Ok(packet) => {
                    assert!(opcode.info().payload.admits(packet.payload.len()));
                    assert!(cut >= repr.buffer_len(0), "{opcode} {cut}");
                }
                Err(error) => assert!(
                    cut < repr.buffer_len(1) || opcode.info().payload.admits(8),
                    "{opcode} {cut}: {error}"
                ),
            }
        }
    }
}

/// The start and end of each header in a packet, and the error for a cut within it.
#[test]
fn truncations_name_the_header() {
    let mut numbers = Numbers(6);
    for opcode in Opcode::all() {
        let transport = emit(&numbers.repr(opcode), &[]);
        let mut begin = Bth::LEN;
        for (layer, len) in opcode
            .info()
            .headers
            .iter()
            .chain([(Layer::Icrc, ICRC_LEN)])
        {
            for cut in begin..begin + len {
                let error = Packet::parse(&transport[..cut]).unwrap_err();
                assert_eq!(error.layer, layer, "{opcode} {cut}");
                assert_eq!(
                    error.reason,
                    Reason::Truncated {
                        available: (cut - begin) as u32,
                        needed: len as u32
                    },
                    "{opcode} {cut}"
                );
            }
            begin += len;
        }
    }
}

// shows: 9.2.1-payload-of-opcode, 9.7.4.1-length-last, A19-atomic-write-payload
#[test]
fn payload_rules_are_kept() {
    let mut numbers = Numbers(7);
    for opcode in Opcode::all() {
        let rule = opcode.info().payload;
        for len in 0..40 {
            let transport = emit(&numbers.repr(opcode), &numbers.bytes(len));
            match Packet::parse(&transport) {
                Ok(packet) => {
                    assert!(rule.admits(len), "{opcode} {len}");
                    assert_eq!(packet.payload.len(), len);
                }
                Err(error) => {
                    assert!(!rule.admits(len), "{opcode} {len}: {error}");
                    let found = len as u32;
                    assert_eq!(error.reason, Reason::PayloadLength { found, rule });
                }
            }
        }
    }
}

// shows: 9.2.4-pad-fits
#[test]
fn padding_must_fit() {
    let mut transport = [0; 12 + 4];
    Bth {
        pad: 1,
        ..Bth::new(Opcode::RC_SEND_ONLY, Qpn::from_bits(1), Psn::ZERO)
    }
    .emit(&mut transport);
    let error = Packet::parse(&transport).unwrap_err();
    assert_eq!(
        error.to_string(),
        "BTH pad count: found 1, expected at most 0"
    );
}

/// Packets without room for padding and ICRC behind their headers, of each opcode.
// shows: 9.2.4-pad-fits
// trap: pad-beyond-payload
#[test]
fn padding_is_never_longer_than_what_is_padded() {
    let mut numbers = Numbers(7);
    for opcode in Opcode::all() {
        for pad in 1..=3_u8 {
            for room in 0..pad.into() {
                let mut repr = numbers.repr(opcode);
                repr.bth.version = 0;
                let mut transport = vec![0; repr.buffer_len(0) + room];
                repr.emit_headers(&mut transport, 0);
                Bth { pad, ..repr.bth }.emit(&mut transport);
                let error = Packet::parse(&transport).expect_err("no room");
                assert_eq!(
                    (error.layer, error.field),
                    (Layer::Bth, "pad count"),
                    "{opcode}"
                );
            }
        }
    }
}

// shows: 9.2.5-version-checked
#[test]
fn other_versions_are_refused() {
    let mut numbers = Numbers(8);
    for version in 1..16 {
        let mut repr = numbers.repr(Opcode::RC_ACKNOWLEDGE);
        repr.bth.version = version;
        let error = Packet::parse(&emit(&repr, &[])).unwrap_err();
        assert_eq!((error.layer, error.field), (Layer::Bth, "version"));
        let found = version.into();
        assert_eq!(
            error.reason,
            Reason::Unsupported {
                found,
                expected: "0"
            }
        );
    }
}

// shows: 9.2-reserved-ignored
#[test]
fn reserved_bits_are_ignored() {
    let mut numbers = Numbers(9);
    let repr = numbers.repr(Opcode::CNP);
    let transport = emit(&repr, &[]);
    let mut other = transport.clone();
    other[4] ^= 0x3f;
    other[8] ^= 0x7f;
    other[12..28].fill(0xff);
    assert_eq!(Packet::parse(&transport), Packet::parse(&other));
}

// trap: hostile-packets
#[test]
fn any_bytes_give_a_packet_or_an_error_that_can_be_printed() {
    let mut numbers = Numbers(10);
    let opcodes: Vec<_> = Opcode::all().collect();
    let (mut packets, mut errors) = (0, 0);
    for round in 0..20_000 {
        let len = (numbers.next() % 80) as usize;
        let mut transport = numbers.bytes(len);
        if let Some(first) = transport.first_mut() {
            *first = opcodes[round % opcodes.len()].byte();
        }
        match Packet::parse(&transport) {
            Ok(packet) => {
                packets += 1;
                assert!(packet.payload.len() < transport.len());
            }
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(packets > 100 && errors > 100, "{packets} {errors}");
}

#[test]
fn extended_headers_parse_by_themselves() {
    let mut numbers = Numbers(11);
    for opcode in Opcode::all() {
        let headers = opcode.info().headers;
        let ext = numbers.repr(opcode).ext;
        let mut buf = [0x5a; 40];
        let len = ext.emit(headers, &mut buf);
        assert_eq!(len, headers.byte_len());
        assert_eq!(ExtHeaders::parse(headers, &buf), Ok((ext, &buf[len..])));
        for cut in 0..len {
            ExtHeaders::parse(headers, &buf[..cut]).unwrap_err();
        }
    }
}

/// Finds the first header by its bytes, which differ for all headers.
// shows: 9.2.1-header-order
#[test]
fn headers_stand_in_the_order_of_the_specification() {
    let ext = ExtHeaders {
        xrceth: Some(XrcEth {
            srqn: Qpn::from_bits(0x11_1111),
        }),
        deth: Some(Deth {
            qkey: QKey(0x2222_2222),
            src_qpn: Qpn::from_bits(0x22_2222),
        }),
        reth: Some(Reth {
            va: 0x3333_3333_3333_3333,
            rkey: 0x3333_3333,
            dma_len: 0x3333_3333,
        }),
        aeth: Some(Aeth {
            syndrome: Syndrome::default(),
            msn: 0x44_4444,
        }),
        atomic_ack: Some(AtomicAckEth {
            original: 0x5555_5555_5555_5555,
        }),
        imm: Some(ImmDt(0x6666_6666)),
        ..ExtHeaders::NONE
    };
    let cases: [(Opcode, &[(usize, u8)]); 4] = [
        (
            Opcode::XRC_WRITE_ONLY_WITH_IMMEDIATE,
            &[(15, 0x11), (16, 0x33), (31, 0x33), (32, 0x66)],
        ),
        (
            Opcode::UD_SEND_ONLY_WITH_IMMEDIATE,
            &[(12, 0x22), (20, 0x66)],
        ),
        (Opcode::RC_ATOMIC_ACKNOWLEDGE, &[(13, 0x44), (16, 0x55)]),
        (
            Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE,
            &[(12, 0x33), (27, 0x33), (28, 0x66)],
        ),
    ];
    for (opcode, bytes) in cases {
        let repr = PacketRepr {
            bth: Bth::new(opcode, Qpn::from_bits(1), Psn::ZERO),
            ext,
        };
        let transport = emit(&repr, &[]);
        for &(at, byte) in bytes {
            assert_eq!(transport[at], byte, "{opcode}: byte {at}");
        }
    }
}
