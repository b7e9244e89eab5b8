use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::Numbers;

/// The ICRC as the specification describes it: the bytes are put together, masked, and passed
/// through the CRC.
fn by_the_book(ip: &IpHeader, src_port: u16, dst_port: u16, transport: &[u8]) -> u32 {
    let udp_len = (8 + transport.len() + 4) as u16;
    let mut bytes = vec![0xff; 8];
    match ip {
        IpHeader::V4 {
            src,
            dst,
            id,
            flags_fragment,
        } => {
            bytes.extend([0x45, 0xff]);
            bytes.extend((udp_len + 20).to_be_bytes());
            bytes.extend(id.to_be_bytes());
            bytes.extend(flags_fragment.to_be_bytes());
            bytes.extend([0xff, 17, 0xff, 0xff]);
            bytes.extend(src);
            bytes.extend(dst);
        }
        IpHeader::V6 { src, dst } => {
            bytes.extend([0x6f, 0xff, 0xff, 0xff]);
            bytes.extend(udp_len.to_be_bytes());
            bytes.extend([17, 0xff]);
            bytes.extend(src);
            bytes.extend(dst);
        }
        IpHeader::Grh { sgid, dgid } => {
            bytes.extend([0x6f, 0xff, 0xff, 0xff]);
            bytes.extend((udp_len - 8).to_be_bytes());
            bytes.extend([0x1b, 0xff]);
            bytes.extend(sgid);
            bytes.extend(dgid);
        }
        IpHeader::OnHost => return 0,
    }
    if !matches!(ip, IpHeader::Grh { .. }) {
        bytes.extend(src_port.to_be_bytes());
        bytes.extend(dst_port.to_be_bytes());
        bytes.extend(udp_len.to_be_bytes());
        bytes.extend([0xff, 0xff]);
    }
    let bth = bytes.len();
    bytes.extend(transport);
    if let Some(byte) = bytes.get_mut(bth + 4) {
        *byte = 0xff;
    }
    bit_by_bit(&bytes)
}

/// CRC-32 by its definition, sharing no code with the crate.
fn bit_by_bit(bytes: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = (register ^ u32::from(byte >> bit)) & 1;
            register = (register >> 1) ^ (0xedb8_8320 * feedback);
        }
    }
    !register
}

fn any_v4(numbers: &mut Numbers) -> IpHeader {
    IpHeader::V4 {
        src: numbers.array(),
        dst: numbers.array(),
        id: numbers.word() as u16,
        flags_fragment: numbers.word() as u16,
    }
}

fn any_v6(numbers: &mut Numbers) -> IpHeader {
    IpHeader::V6 {
        src: numbers.array(),
        dst: numbers.array(),
    }
}

fn any_grh(numbers: &mut Numbers) -> IpHeader {
    IpHeader::Grh {
        sgid: numbers.array(),
        dgid: numbers.array(),
    }
}

#[test]
fn the_reference_is_the_well_known_crc() {
    assert_eq!(bit_by_bit(b"123456789"), 0xcbf4_3926);
}

type Way = fn(&IpHeader, u16, u16, &[u8]) -> u32;

/// The implementation for this processor, and the generic one.
const WAYS: [Way; 2] = [compute, compute_with_tables];

// shows: CA17-22-cover, CA17-22-ones, CA17-22-masked-ipv4, CA17-22-masked-ipv6
// shows: CA17-22-masked-udp, A16-icrc
// trap: icrc-masks
#[test]
fn agrees_with_the_book_at_every_length() {
    let mut numbers = Numbers(30);
    for len in (0..600).chain([1024, 2048, 4096, 4108, 4124, 65_000]) {
        let transport = numbers.bytes(len);
        let headers = [any_v4, any_v6, any_grh].map(|any| any(&mut numbers));
        for ip in headers {
            let src_port = numbers.word() as u16;
            for dst_port in [4791, numbers.word() as u16] {
                for way in WAYS {
                    assert_eq!(
                        way(&ip, src_port, dst_port, &transport),
                        by_the_book(&ip, src_port, dst_port, &transport),
                        "{ip:?} {src_port} {dst_port} {len}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_usually_is_in_the_header_is_no_special_case() {
    let transport = Numbers(31).bytes(100);
    for id in [0, 1, 0x8000] {
        for flags_fragment in [0, DONT_FRAGMENT, 0x8000, 0xffff] {
            let ip = IpHeader::V4 {
                src: [10, 0, 0, 1],
                dst: [10, 0, 0, 2],
                id,
                flags_fragment,
            };
            for way in WAYS {
                assert_eq!(
                    way(&ip, 69, 4791, &transport),
                    by_the_book(&ip, 69, 4791, &transport)
                );
            }
        }
    }
}

// shows: CA17-22-masked-bth
#[test]
fn byte_4_of_the_bth_does_not_count() {
    let mut numbers = Numbers(32);
    let ip = any_v4(&mut numbers);
    for len in [5, 12, 100] {
        let mut transport = numbers.bytes(len);
        let before = compute(&ip, 1, 4791, &transport);
        for value in 0..=255 {
            transport[4] = value;
            for way in WAYS {
                assert_eq!(way(&ip, 1, 4791, &transport), before);
            }
        }
    }
}

#[test]
fn sealed_packets_verify_and_any_flipped_bit_is_found() {
    let mut numbers = Numbers(33);
    for ip in [any_v4(&mut numbers), any_v6(&mut numbers)] {
        for len in [16, 20, 280, 1044] {
            let mut transport = numbers.bytes(len);
            seal(&ip, 0xc123, 4791, &mut transport);
            assert_eq!(verify(&ip, 0xc123, 4791, &transport), Ok(()));
            for bit in 0..8 * len {
                transport[bit / 8] ^= 1 << (bit % 8);
                let valid = verify(&ip, 0xc123, 4791, &transport).is_ok();
                assert_eq!(valid, bit / 8 == 4, "bit {bit} of {len} bytes");
                transport[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

// shows: CA17-22-order
// trap: icrc-masks
#[test]
fn is_stored_least_significant_byte_first() {
    let ip = any_v4(&mut Numbers(34));
    let mut transport = vec![0; 20];
    seal(&ip, 1, 4791, &mut transport);
    let icrc = by_the_book(&ip, 1, 4791, &[0; 16]);
    assert_eq!(transport[16..], icrc.to_le_bytes());
}

#[test]
fn ports_and_addresses_count() {
    let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let ip = |src, dst| IpHeader::V4 {
        src,
        dst,
        id: 0,
        flags_fragment: DONT_FRAGMENT,
    };
    let mut transport = Numbers(35).bytes(40);
    seal(&ip(src, dst), 69, 4791, &mut transport);
    verify(&ip(src, dst), 69, 4791, &transport).unwrap();
    verify(&ip(dst, src), 69, 4791, &transport).unwrap_err();
    verify(&ip(src, dst), 72, 4791, &transport).unwrap_err();
    verify(&ip(src, dst), 69, 4792, &transport).unwrap_err();
}

#[test]
fn what_is_too_short_for_an_icrc_never_verifies() {
    let mut numbers = Numbers(36);
    let ip = any_v6(&mut numbers);
    for len in 0..4 {
        let mut transport = numbers.bytes(len);
        let before = transport.clone();
        seal(&ip, 1, 4791, &mut transport);
        assert_eq!(transport, before);
        verify(&ip, 1, 4791, &transport).unwrap_err();
        verify_hidden_v4([0; 4], [0; 4], 1, 4791, &transport).unwrap_err();
    }
}

#[test]
fn what_no_datagram_can_hold_is_harmless() {
    let mut numbers = Numbers(37);
    for len in [65_536, 70_000, 200_000] {
        let transport = numbers.bytes(len);
        verify(&any_v4(&mut numbers), 1, 4791, &transport).unwrap_err();
        verify_hidden_v4([1; 4], [2; 4], 1, 4791, &transport).unwrap_err();
    }
}

// shows: A17.3.3-hidden
#[test]
fn every_hidden_identification_is_found_out() {
    let mut numbers = Numbers(38);
    for len in [16, 20, 41, 284, 1044] {
        for flags_fragment in [0, DONT_FRAGMENT] {
            let mut transport = hidden(&mut numbers, len, 0, flags_fragment);
            for id in 0..=u16::MAX {
                seal(&v4(id, flags_fragment), PORT, 4791, &mut transport);
                let found = verify_hidden(&transport);
                let dont_fragment = flags_fragment == DONT_FRAGMENT;
                assert_eq!(found, Ok(HiddenV4 { id, dont_fragment }), "{len}");
            }
        }
    }
}

#[test]
fn hidden_identifications_are_found_out_at_every_length() {
    let mut numbers = Numbers(39);
    for len in (4..4_300).chain([9_000, 65_507]) {
        let id = numbers.word() as u16;
        let transport = hidden(&mut numbers, len, id, DONT_FRAGMENT);
        let dont_fragment = true;
        assert_eq!(
            verify_hidden(&transport),
            Ok(HiddenV4 { id, dont_fragment }),
            "{len}"
        );
    }
}

#[test]
fn hidden_fields_other_than_identification_and_flag_are_not_made_up() {
    let mut numbers = Numbers(40);
    for flags_fragment in (0..16).map(|bit| 1 << bit).filter(|&f| f != DONT_FRAGMENT) {
        let transport = hidden(&mut numbers, 100, 7, flags_fragment);
        verify_hidden(&transport).unwrap_err();
    }
}

/// A flipped bit that changes the ICRC like another identification or flag can't be distinguished
/// from it. Whether a bit does depends only on its distance from the identification. Such bits are
/// as rare as a check of 15 bits implies. None is within the first 130 bytes, and each looks like
/// the wrong flag.
// shows: A17.3.3-hidden
#[test]
fn flipped_bits_are_found_though_fields_are_hidden() {
    let mut numbers = Numbers(41);
    let (mut flipped, mut missed) = (0, 0);
    for len in [16, 32, 130, 4140] {
        let mut transport = hidden(&mut numbers, len, 0x1234, DONT_FRAGMENT);
        for bit in (0..8 * len).filter(|bit| bit / 8 != 4) {
            transport[bit / 8] ^= 1 << (bit % 8);
            flipped += 1;
            if let Ok(found) = verify_hidden(&transport) {
                missed += 1;
                assert!(bit / 8 > 130, "bit {bit} of {len} bytes");
                assert_ne!(found.id, 0x1234);
                assert!(!found.dont_fragment, "bit {bit} of {len} bytes");
            }
            transport[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(missed <= 2, "{missed} of {flipped}: 1 is expected");
}

/// 17 of the 32 bits of the check are used for the hidden fields: no more than one random ICRC in
/// 2^15 passes.
#[test]
fn random_icrcs_are_refused() {
    let mut numbers = Numbers(42);
    let mut transport = numbers.bytes(60);
    let mut passed = 0;
    for _ in 0..1 << 18 {
        transport[56..].copy_from_slice(&numbers.array::<4>());
        passed += u32::from(verify_hidden(&transport).is_ok());
    }
    assert!((1..=24).contains(&passed), "{passed}: 8 are expected");
}

const SRC: [u8; 4] = [192, 168, 7, 1];
const DST: [u8; 4] = [192, 168, 7, 2];
const PORT: u16 = 0xc001;

fn v4(id: u16, flags_fragment: u16) -> IpHeader {
    IpHeader::V4 {
        src: SRC,
        dst: DST,
        id,
        flags_fragment,
    }
}

/// Random bytes, sealed with this identification and these flags.
fn hidden(numbers: &mut Numbers, len: usize, id: u16, flags_fragment: u16) -> Vec<u8> {
    let mut transport = numbers.bytes(len);
    seal(&v4(id, flags_fragment), PORT, 4791, &mut transport);
    transport
}

fn verify_hidden(transport: &[u8]) -> Result<HiddenV4, IcrcMismatch> {
    verify_hidden_v4(SRC, DST, PORT, 4791, transport)
}

/// Bytes that pad the payload are covered like the payload itself.
// shows: CA17-22-padding
// trap: pad-in-icrc
#[test]
fn padding_is_covered() {
    let ip = IpHeader::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
        id: 0,
        flags_fragment: DONT_FRAGMENT,
    };
    // BTH with pad count 3, one byte of payload, three of padding, ICRC.
    let mut transport = [0; 12 + 4 + ICRC_LEN];
    transport[0] = 0x04;
    transport[1] = 0x30;
    transport[12] = 0xaa;
    seal(&ip, 0xc000, UDP_PORT, &mut transport);
    assert!(verify(&ip, 0xc000, UDP_PORT, &transport).is_ok());
    for at in 13..16 {
        transport[at] ^= 1;
        assert!(verify(&ip, 0xc000, UDP_PORT, &transport).is_err());
        transport[at] ^= 1;
    }
}

/// An IPv4 header with the maximum length of options.
#[test]
fn the_longest_header_is_covered_to_its_end() {
    let mut headers: [u8; 68] = Numbers(7).array();
    headers[0] = 0x4f;
    let mut bytes = vec![0xff; 8];
    bytes.extend(headers);
    for masked in [1, 8, 10, 11, 66, 67] {
        bytes[8 + masked] = 0xff;
    }
    let transport = [0x64, 0, 0xff, 0xff, 9, 1, 2, 3];
    bytes.extend(transport);
    bytes[8 + 68 + 4] = 0xff;
    assert_eq!(compute_raw(&headers, &transport), bit_by_bit(&bytes));
}

/// A packet without room for an ICRC.
#[test]
fn a_mismatch_says_what_was_found_and_what_is_right() {
    let ip = IpHeader::V6 {
        src: [1; 16],
        dst: [2; 16],
    };
    let error = verify(&ip, 4791, 4791, &[1, 2, 3]).expect_err("too short");
    let of_nothing = bit_by_bit(&[0xff; 8]);
    assert_eq!((error.stored, error.computed), (0, of_nothing));
    let error = IcrcMismatch {
        stored: 0x12ab,
        computed: 0xffff_0000,
    };
    assert_eq!(
        error.to_string(),
        "ICRC: found 0x000012ab, expected 0xffff0000"
    );
}
