use std::vec;
use std::vec::Vec;

use super::super::DONT_FRAGMENT;
use super::*;
use crate::testing::Numbers;

const PORTS: (u16, u16) = (0xc123, 4791);

/// The length of `before` bytes of headers, `payload` bytes, padding to four bytes, and the ICRC.
fn room(before: usize, payload: usize) -> usize {
    before + payload.next_multiple_of(4) + ICRC_LEN
}

fn v4(numbers: &mut Numbers) -> IpHeader {
    IpHeader::V4 {
        src: numbers.array(),
        dst: numbers.array(),
        id: numbers.word() as u16,
        flags_fragment: DONT_FRAGMENT,
    }
}

fn others(numbers: &mut Numbers) -> [IpHeader; 2] {
    let (a, b) = (numbers.array(), numbers.array());
    [
        IpHeader::V6 { src: a, dst: b },
        IpHeader::Grh { sgid: a, dgid: b },
    ]
}

/// The packet that results from copying, and the one that results from writing and sealing.
fn both(ip: IpHeader, packet: &[u8], at: usize, payload: &[u8]) -> [Vec<u8>; 2] {
    let range = at..at + payload.len();
    let mut wanted = packet.to_vec();
    wanted[range.clone()].copy_from_slice(payload);
    seal(&ip, PORTS.0, PORTS.1, &mut wanted);
    let mut copied = packet.to_vec();
    copy(ip, &mut copied, range, payload);
    [copied, wanted]
}

fn copy(ip: IpHeader, packet: &mut [u8], range: Range<usize>, payload: &[u8]) {
    assert_eq!(range.len(), payload.len());
    let mut unsealed = Unsealed::new(ip, PORTS.0, PORTS.1, packet, range);
    #[expect(unsafe_code, reason = "the function that is tested")]
    // SAFETY: `payload` has this number of bytes.
    unsafe {
        unsealed.copy_from(payload.as_ptr());
    }
    unsealed.seal();
}

// shows: CA17-22-cover, CA17-22-padding
#[test]
fn a_copied_packet_is_as_one_written_and_sealed() {
    let mut numbers = Numbers(50);
    for len in (0..1200).chain([2048, 4095, 4096, 8192]) {
        for before in [12, 16, 28, 32] {
            let packet = numbers.bytes(room(before, len));
            let payload = numbers.bytes(len);
            let ip = v4(&mut numbers);
            let [copied, wanted] = both(ip, &packet, before, &payload);
            assert!(copied == wanted, "{len} bytes after {before}");
        }
    }
}

/// The alignment of the packet and of the payload does not matter.
#[test]
fn every_alignment_does() {
    let mut numbers = Numbers(51);
    let ip = v4(&mut numbers);
    let (len, before) = (1500, 28);
    let source = numbers.bytes(len + 64);
    let packet = numbers.bytes(room(before, len));
    for from in 0..64 {
        let payload = &source[from..from + len];
        let [_, wanted] = both(ip, &packet, before, payload);
        for to in 0..64 {
            let mut buffer = vec![0x55; to + packet.len() + 64];
            let (front, rest) = buffer.split_at_mut(to);
            let (place, back) = rest.split_at_mut(packet.len());
            place.copy_from_slice(&packet);
            copy(ip, place, before..before + len, payload);
            assert!(place == wanted, "from {from} to {to}");
            assert!(front.iter().chain(&*back).all(|&byte| byte == 0x55));
        }
    }
}

/// Packets that the fast path does not take, because they are invalid or rare, are written and then
/// sealed.
#[test]
fn other_packets_are_as_written_and_sealed() {
    let mut numbers = Numbers(52);
    for len in [0, 1, 511, 512, 4096] {
        let payload = numbers.bytes(len);
        for before in 0..16 {
            let packet = numbers.bytes(room(before, len));
            for ip in others(&mut numbers).into_iter().chain([v4(&mut numbers)]) {
                let [copied, wanted] = both(ip, &packet, before, &payload);
                assert!(copied == wanted, "{ip:?}: {len} bytes after {before}");
            }
        }
    }
    // No room for padding or ICRC.
    for (room, len) in [(600, 588), (600, 585), (3, 0)] {
        let packet = numbers.bytes(room);
        let payload = numbers.bytes(len);
        let [copied, wanted] = both(v4(&mut numbers), &packet, room - len, &payload);
        assert!(copied == wanted, "{len} of {room} bytes");
    }
}

/// Bytes that are written after a copy replace the copied ones.
#[test]
fn a_payload_can_be_written_anew() {
    let mut numbers = Numbers(53);
    let ip = v4(&mut numbers);
    let payload = numbers.bytes(1024);
    let mut packet = numbers.bytes(room(12, 1024));
    let mut unsealed = Unsealed::new(ip, PORTS.0, PORTS.1, &mut packet, 12..12 + 1024);
    assert_eq!(unsealed.payload_len(), 1024);
    #[expect(unsafe_code, reason = "the function that is tested")]
    // SAFETY: `payload` has this number of bytes.
    unsafe {
        unsealed.copy_from(payload.as_ptr());
    }
    assert_eq!(unsealed.payload_mut(), payload);
    unsealed.payload_mut()[1000] ^= 1;
    unsealed.seal();
    super::super::verify(&ip, PORTS.0, PORTS.1, &packet).expect("sealed as written");
    assert_eq!(packet[12 + 1000], payload[1000] ^ 1);
}

#[test]
#[should_panic(expected = "payload")]
fn a_payload_outside_of_the_packet_is_refused() {
    let ip = v4(&mut Numbers(54));
    Unsealed::new(ip, PORTS.0, PORTS.1, &mut [0; 20], 12..21);
}

#[test]
fn a_packet_on_the_host_gets_no_icrc() {
    for len in [0, 8, 1024] {
        let mut packet = vec![0xa5; 12 + len + 4];
        let payload = vec![7; len];
        let mut unsealed = Unsealed::new(IpHeader::OnHost, 1, 2, &mut packet, 12..12 + len);
        unsealed.payload_mut().copy_from_slice(&payload);
        unsealed.seal();
        assert_eq!(packet[12..12 + len], payload);
        assert_eq!(packet[12 + len..], [0; 4]);
    }
}
