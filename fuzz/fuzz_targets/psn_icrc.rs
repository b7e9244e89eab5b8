//! Properties of PSNs, of the codes of syndromes, credits and opcodes, and of the ICRC that hold
//! for all inputs.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use roce_wire::icrc::{self, HiddenV4, IpHeader};
use roce_wire::{Credits, Opcode, Psn, Syndrome};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    psn: u32,
    step: u32,
    src: [u8; 4],
    dst: [u8; 4],
    ports: [u16; 2],
    id: u16,
    dont_fragment: bool,
    byte: u8,
    count: u32,
    transport: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    psn(input.psn, input.step);
    codes(input.byte, input.count);
    hidden(&input);
});

fn psn(start: u32, step: u32) {
    let start = Psn::new(start);
    let end = start.add(step);
    assert!(end.get() < 1 << 24);
    assert_eq!(Psn::try_new(end.get()), Some(end));
    assert_eq!(end.back(step), start);
    let distance = end.diff(start);
    assert!((-(1 << 23)..1 << 23).contains(&distance));
    assert_eq!((distance as u32 ^ step) << 8, 0, "equal modulo 2^24");
    assert_eq!(start.add(distance as u32), end);
    // At a distance of half the PSN space, each of the two PSNs is before the other.
    if distance != -(1 << 23) {
        assert_eq!(start.diff(end), -distance);
    }
    assert_eq!(end.next().diff(end), 1);
}

fn codes(byte: u8, count: u32) {
    assert_eq!(Syndrome::from_byte(byte).byte(), byte);
    let credits = Credits::from_count(count);
    let credit_count = credits.count().expect("never the invalid code");
    assert!(credit_count <= count);
    if let Some(next) = Credits::from_code(credits.code() + 1).and_then(Credits::count) {
        assert!(next > count);
    }
    if let Some(opcode) = Opcode::from_byte(byte) {
        let info = opcode.info();
        let again = Opcode::new(info.transport, info.operation, info.position, info.suffix);
        assert_eq!(again, Some(opcode));
    }
}

/// The IPv4 identification and flag that a packet was sealed with are recovered from its ICRC. The
/// ICRC is linear in the identification.
fn hidden(input: &Input<'_>) {
    let Input { src, dst, id, .. } = *input;
    let [src_port, dst_port] = input.ports;
    let ip = |id, dont_fragment| IpHeader::V4 {
        src,
        dst,
        id,
        flags_fragment: u16::from(dont_fragment) << 14,
    };
    let covered = input.transport;
    let of = |id| icrc::compute(&ip(id, input.dont_fragment), src_port, dst_port, covered);
    let other = input.byte.into();
    assert_eq!(of(0) ^ of(id) ^ of(other), of(id ^ other));

    let mut transport = covered.to_vec();
    transport.extend([0; 4]);
    let ip = ip(id, input.dont_fragment);
    icrc::seal(&ip, src_port, dst_port, &mut transport);
    assert_eq!(icrc::verify(&ip, src_port, dst_port, &transport), Ok(()));
    assert_eq!(
        icrc::verify_hidden_v4(src, dst, src_port, dst_port, &transport),
        Ok(HiddenV4 {
            id,
            dont_fragment: input.dont_fragment
        })
    );
}
