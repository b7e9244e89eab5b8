//! A dropped packet consumes no receive, is counted with its reason, and is not answered (IBTA 1.7,
//! 9.9.3).

use super::{GRH, deth, ready};
use crate::sim::pair::assert_outcomes;
use crate::sim::{Hand, QKEY};
use roce_stack::{DropReason, QpState, Sge, WcStatus};
use roce_wire::{ExtHeaders, Opcode, PKey, QKey, Qpn};

const SEND: Opcode = Opcode::UD_SEND_ONLY;

/// One packet was dropped for `reason`; the next valid one is accepted by the receive that was
/// posted before.
#[track_caller]
fn assert_dropped(mut hand: Hand, good: ExtHeaders, reason: DropReason) {
    assert_eq!(hand.drops(reason), 1, "{:?}", hand.node.nic.counters());
    assert_eq!(hand.node.nic.counters().total_drops(), 1);
    assert!(hand.node.received().is_empty() && hand.out().is_empty());
    assert_eq!(hand.state(), QpState::Rts);
    hand.request(SEND, good, &[1; 4]);
    assert_outcomes(&hand.node.received(), &[(1, WcStatus::Success)]);
}

/// A QP with one receive for `room` bytes of message.
fn receiver(room: usize) -> (Hand, ExtHeaders) {
    let (mut hand, ext) = ready();
    let mem = hand.mem(8192);
    hand.post_recv(1, &[mem.sge(0, GRH + room)]);
    (hand, ext)
}

// shows: 9.8.3-qkey-check, 9.8.3-errors-stay
#[test]
fn the_wrong_key() {
    for qkey in [0, QKEY.0 ^ 1, QKEY.0 | 1 << 31] {
        let (mut hand, good) = receiver(64);
        hand.request(SEND, deth(QKey(qkey)), &[1; 4]);
        assert_dropped(hand, good, DropReason::WrongQKey);
    }
}

#[test]
fn the_wrong_partition() {
    let (mut hand, good) = receiver(64);
    let mut bth = hand.bth(SEND, 1);
    bth.pkey = PKey(0x8001);
    hand.deliver(bth, good, &[1; 4]);
    assert_dropped(hand, good, DropReason::WrongPKey);
}

// shows: 9.8.3-too-small-receive, 9.8.3-errors-stay
#[test]
fn a_receive_that_is_too_small() {
    let (mut hand, good) = receiver(10);
    hand.request(SEND, good, &[1; 11]);
    assert_dropped(hand, good, DropReason::ReceiveTooSmall);

    // Not even the header fits.
    let (mut hand, good) = ready();
    let mem = hand.mem(64);
    hand.post_recv(1, &[mem.sge(0, GRH - 1)]);
    hand.request(SEND, good, &[]);
    assert_eq!(hand.drops(DropReason::ReceiveTooSmall), 1);
}

// shows: 9.8.3-longer-than-mtu
#[test]
fn more_than_a_path_mtu() {
    let (mut hand, good) = receiver(8000);
    hand.request(SEND, good, &[1; 4097]);
    assert_dropped(hand, good, DropReason::BadLength);
}

// shows: 9.8.3-no-receive-drops, 9.8.3-errors-stay
#[test]
fn no_receive() {
    let (mut hand, good) = ready();
    hand.request(SEND, good, &[1; 4]);
    let mem = hand.mem(64);
    hand.post_recv(1, &[mem.sge(0, 64)]);
    assert_dropped(hand, good, DropReason::NoReceive);
}

// shows: 9.8.3-multicast-number
#[test]
fn the_number_of_multicast_without_a_group() {
    let (mut hand, good) = receiver(64);
    let mut bth = hand.bth(SEND, 1);
    bth.dest_qpn = Qpn::MULTICAST;
    hand.deliver(bth, good, &[1; 4]);
    assert_dropped(hand, good, DropReason::NoGroup);
}

#[test]
fn packets_of_other_services() {
    for opcode in [
        Opcode::RC_SEND_ONLY,
        Opcode::UC_SEND_ONLY,
        Opcode::RC_ACKNOWLEDGE,
    ] {
        let (mut hand, good) = receiver(64);
        hand.request(opcode, good, &[]);
        assert_dropped(hand, good, DropReason::WrongTransport);
    }
}

/// The receive's own memory is wrong: it completes with that error, and the QP fails.
// shows: 9.8.3-bad-receive
#[test]
fn a_bad_receive_fails_the_qp() {
    let (mut hand, good) = ready();
    let mem = hand.mem(64);
    let bad = Sge {
        addr: 1,
        length: 64,
        lkey: 1,
    };
    hand.post_recv(1, &[mem.sge(0, GRH), bad]);
    hand.post_recv(2, &[]);
    hand.request(SEND, good, &[1; 4]);
    assert_outcomes(
        &hand.node.received(),
        &[
            (1, WcStatus::LocalProtectionError),
            (2, WcStatus::WorkRequestFlushed),
        ],
    );
    assert_eq!(hand.state(), QpState::Err);
}
