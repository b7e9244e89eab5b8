//! Soft-RoCE of kernel 7.2 computes the ICRC of a FLUSH over the headers twice, and drops others.

use super::pending::headers;
use super::{Disk, flush, setup};
use crate::sim::{Frame, Hand, frame};
use roce_stack::{DropReason, IpCovered};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{ICRC_LEN, Opcode, UDP_PORT};
use std::net::IpAddr;

/// Gives a frame the ICRC of Soft-RoCE.
fn cover_again(frame: &mut Frame) {
    let (headers, stored) = frame
        .bytes
        .split_last_chunk_mut::<ICRC_LEN>()
        .expect("long");
    let icrc = icrc::cover_again(u32::from_le_bytes(*stored), headers);
    *stored = icrc.to_le_bytes();
}

/// FLUSHes are accepted with either ICRC, and other requests with one only.
// trap: flush-icrc
#[test]
fn a_flush_of_soft_roce_is_accepted() {
    for opcode in [Opcode::RC_FLUSH, Opcode::RC_WRITE_ONLY] {
        let mut hand = Hand::new(setup());
        let (mem, _) = Disk::register(&mut hand.node, 64, false);
        let (ext, payload) = match opcode {
            Opcode::RC_FLUSH => (headers(&mem), &[][..]),
            _ => (mem.reth(0, 8), &[7; 8][..]),
        };
        let bth = hand.bth(opcode, hand.psn);
        let mut frame = frame(hand.meta(), bth, ext, payload);
        cover_again(&mut frame);
        let (now, nic) = (hand.now, &mut hand.node.nic);
        nic.receive(now, &frame.meta, &frame.bytes);
        if opcode == Opcode::RC_FLUSH {
            assert_eq!(hand.out_one().opcode(), Opcode::RC_READ_RESPONSE_ONLY);
            assert_eq!(hand.drops(DropReason::BadIcrc), 0);
        } else {
            assert_eq!(hand.drops(DropReason::BadIcrc), 1);
        }
        // A wrong one is not accepted.
        *frame.bytes.last_mut().expect("long") ^= 1;
        let before = hand.drops(DropReason::BadIcrc);
        let (now, nic) = (hand.now, &mut hand.node.nic);
        nic.receive(now, &frame.meta, &frame.bytes);
        assert_eq!(hand.drops(DropReason::BadIcrc), before + 1);
    }
}

/// Whether the NIC's next packet, a FLUSH, has the ICRC of Soft-RoCE instead of the specification's.
fn sends_as_soft_roce(hand: &mut Hand) -> bool {
    let (now, node) = (hand.now, &mut hand.node);
    node.nic.transmit(now, &mut node.port);
    let mut sent = std::mem::take(&mut node.port.out);
    assert_eq!(sent.len(), 1);
    node.port.arrive(&mut sent[0]);
    let frame = &sent[0];
    let (IpAddr::V4(src), IpAddr::V4(dst), IpCovered::V4 { id, flags_fragment }) =
        (frame.meta.src, frame.meta.dst, frame.meta.ip)
    else {
        panic!("{:?}", frame.meta);
    };
    let ip = IpHeader::V4 {
        src: src.octets(),
        dst: dst.octets(),
        id,
        flags_fragment,
    };
    let (headers, stored) = frame.bytes.split_last_chunk::<ICRC_LEN>().expect("long");
    assert_eq!(headers[0], Opcode::RC_FLUSH.byte());
    let right = icrc::compute(&ip, frame.meta.src_port, UDP_PORT, headers);
    match u32::from_le_bytes(*stored) {
        stored if stored == right => false,
        stored => {
            assert_eq!(stored, icrc::cover_again(right, headers));
            true
        }
    }
}

/// From the second retransmission on, FLUSHes have the ICRC of Soft-RoCE and that of the specification
/// by turns, until one is answered. The next FLUSH has the ICRC of the one that was answered.
// trap: flush-icrc
#[test]
fn a_flush_that_is_never_answered_changes_its_icrc() {
    for answered in [0, 1, 2, 3, 4] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        hand.post(1, flush(mem.remote(0), 8), &[]);
        let expected = [false, false, true, false, true];
        let psn = hand.setup.psn[0];
        for (attempt, expected) in expected.into_iter().enumerate() {
            assert_eq!(sends_as_soft_roce(&mut hand), expected, "{attempt}");
            if attempt == answered {
                break;
            }
            while !hand.node.nic.wants_to_send() {
                hand.timeout();
            }
        }
        let aeth = roce_wire::ExtHeaders {
            aeth: Some(roce_wire::Aeth::default()),
            ..roce_wire::ExtHeaders::NONE
        };
        let bth = hand.bth(Opcode::RC_READ_RESPONSE_ONLY, psn);
        hand.deliver(bth, aeth, &[]);
        assert_eq!(hand.node.sent().len(), 1);
        hand.post(2, flush(mem.remote(0), 8), &[]);
        assert_eq!(sends_as_soft_roce(&mut hand), expected[answered]);
    }
}
