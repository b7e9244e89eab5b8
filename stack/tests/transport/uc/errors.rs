//! Errors: one by the peer costs a message, one of the QP itself stops the send queue.

use super::setup;
use crate::sim::pair::assert_outcomes;
use crate::sim::{A, B, Hand, Pair, Setup, to_state};
use roce_stack::{Access, DropReason, Event, QpState, SendOp, Sge, WcStatus};
use roce_wire::{ExtHeaders, Opcode};

/// A packet is dropped for `reason`, nothing is answered, and the QP continues.
#[track_caller]
fn assert_dropped(mut hand: Hand, opcode: Opcode, ext: ExtHeaders, len: usize, reason: DropReason) {
    hand.request(opcode, ext, &vec![1; len]);
    assert_eq!(hand.drops(reason), 1, "{:?}", hand.node.nic.counters());
    assert!(hand.out().is_empty(), "no answer");
    assert_eq!(hand.state(), QpState::Rts);
    assert!(hand.node.received().is_empty() && hand.node.events.is_empty());
    let mem = hand.mem(8);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::UC_WRITE_ONLY, mem.reth(0, 8), &[9; 8]);
    if hand.setup.access.contains(Access::REMOTE_WRITE) {
        assert_eq!(mem.read(0, 8), [9; 8], "the next one is taken");
    }
}

// shows: 9.8.2-write-check
#[test]
fn what_the_peer_may_not_do_is_dropped_silently() {
    let denied = DropReason::AccessDenied;
    let write = Opcode::UC_WRITE_ONLY;
    let fresh = || {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        (hand, mem)
    };
    let (hand, mem) = fresh();
    let mut ext = mem.reth(0, 8);
    if let Some(reth) = ext.reth.as_mut() {
        reth.rkey ^= 1;
    }
    assert_dropped(hand, write, ext, 8, denied);
    let (hand, mem) = fresh();
    assert_dropped(hand, write, mem.reth(60, 8), 8, denied);
    let (hand, mem) = fresh();
    assert_dropped(hand, write, mem.reth(0, 9), 8, DropReason::BadLength);
    let (mut hand, _) = fresh();
    let local = hand.node.mem_with(64, Access::LOCAL_WRITE);
    assert_dropped(hand, write, local.reth(0, 8), 8, denied);

    let mut hand = Hand::new(Setup {
        access: Access::empty(),
        ..setup()
    });
    let mem = hand.mem(64);
    assert_dropped(hand, write, mem.reth(0, 8), 8, denied);
}

/// A message longer than the receive is lost, and costs the receiver nothing: the receive is still
/// there (IBTA 1.7, 9.9.3, class D).
// shows: 9.8.2-too-long
#[test]
fn a_receive_that_is_too_small_stays() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(4096);
    hand.post_recv(1, &[mem.sge(0, 1500)]);
    hand.request(Opcode::UC_SEND_FIRST, ExtHeaders::NONE, &[1; 1024]);
    hand.request(Opcode::UC_SEND_LAST, ExtHeaders::NONE, &[1; 1000]);
    assert_eq!(hand.drops(DropReason::ReceiveTooSmall), 1);
    assert!(hand.node.received().is_empty());
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[2; 1000]);
    let done = hand.node.received();
    assert_outcomes(&done, &[(1, WcStatus::Success)]);
    assert_eq!(done[0].byte_len, 1000);
}

/// One byte too many is enough.
#[test]
fn a_receive_that_is_one_byte_too_small_stays() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(64);
    hand.post_recv(1, &[mem.sge(0, 7)]);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    assert_eq!(hand.drops(DropReason::ReceiveTooSmall), 1);
    assert_eq!(hand.state(), QpState::Rts);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[2; 7]);
    assert_outcomes(&hand.node.received(), &[(1, WcStatus::Success)]);
}

/// Packets with other lengths than their place in the message requires.
// shows: 9.8.2-lengths
#[test]
fn lengths_must_fit_the_path_mtu() {
    for (opcode, len) in [
        (Opcode::UC_SEND_FIRST, 512),
        (Opcode::UC_SEND_FIRST, 2048),
        (Opcode::UC_SEND_ONLY, 1025),
    ] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(4096);
        hand.post_recv(1, &[mem.sge(0, 4096)]);
        hand.request(opcode, ExtHeaders::NONE, &vec![1; len]);
        assert_eq!(hand.drops(DropReason::BadLength), 1, "{opcode} of {len}");
        assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((0, 1)));
    }
}

/// The memory of the receive itself is wrong: it completes with that error, and the QP fails (IBTA
/// 1.7, 9.9.3, class A).
// shows: 9.8.2-bad-receive
#[test]
fn a_bad_receive_fails_the_qp() {
    let mut hand = Hand::new(setup());
    let bad = Sge {
        addr: 8,
        length: 64,
        lkey: 1,
    };
    hand.post_recv(1, &[bad]);
    hand.post_recv(2, &[]);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    assert_outcomes(
        &hand.node.received(),
        &[
            (1, WcStatus::LocalProtectionError),
            (2, WcStatus::WorkRequestFlushed),
        ],
    );
    assert_eq!(hand.state(), QpState::Err);
    assert_eq!(hand.node.events, [], "the completion reports it");
}

/// An error in the send queue does not affect receiving; sends are flushed until the application
/// moves the QP back to RTS (IBTA 1.7, 10.3.1.6).
// shows: 9.8.2-sqe, 10.3.1-sqe
#[test]
fn a_send_error_stops_sending_only() {
    let mut pair = Pair::new(setup());
    let (a, b) = (pair.mem(A, 4096), pair.mem(B, 4096));
    let bad = Sge {
        addr: 8,
        length: 64,
        lkey: 1,
    };
    pair.post(A, 1, SendOp::Write(b.remote(0)), &[a.sge(0, 8)]);
    pair.post(A, 2, SendOp::Send, &[bad]);
    pair.post(A, 3, SendOp::Send, &[a.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(
        A,
        &[
            (1, WcStatus::Success),
            (2, WcStatus::LocalProtectionError),
            (3, WcStatus::WorkRequestFlushed),
        ],
    );
    assert_eq!(pair.state(A), QpState::Sqe);
    assert!(pair.nodes[A].events.is_empty());

    pair.post(A, 4, SendOp::Send, &[a.sge(0, 8)]);
    pair.assert_sent_as(A, &[(4, WcStatus::WorkRequestFlushed)]);
    pair.post_recv(A, 5, &[a.sge(0, 64)]);
    pair.post(B, 6, SendOp::Send, &[b.sge(0, 8)]);
    pair.run();
    pair.assert_received(A, &[5]);
    pair.assert_sent(B, &[6]);

    pair.modify(A, &to_state(QpState::Rts));
    pair.post_recv(B, 7, &[b.sge(0, 64)]);
    pair.post(A, 8, SendOp::Send, &[a.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[8]);
    pair.assert_received(B, &[7]);
}

/// A send error for which the CQ has no room, during the flush or when more is posted, fails the
/// whole QP.
// shows: 10.10.2-cq-overrun
#[test]
fn no_qp_survives_an_overrun() {
    let bad = Sge {
        addr: 8,
        length: 64,
        lkey: 1,
    };
    for (before, after) in [(3, 0), (2, 1)] {
        let mut pair = Pair::new(Setup {
            cq_entries: 2,
            ..setup()
        });
        for wr_id in 0..before {
            pair.post(A, wr_id, SendOp::Send, &[bad]);
        }
        pair.post_recv(A, 9, &[]);
        pair.run();
        for wr_id in 0..after {
            assert_eq!(pair.state(A), QpState::Sqe);
            pair.post(A, wr_id, SendOp::Send, &[bad]);
            pair.nodes[A].take_events();
        }
        assert_eq!(pair.state(A), QpState::Err);
        let event = Event::QpFatal(pair.nodes[A].qpn);
        assert!(pair.nodes[A].events.contains(&event));
        pair.assert_received_as(A, &[(9, WcStatus::WorkRequestFlushed)]);
    }
}

/// SQD waits for the message that was begun, and for no other.
#[test]
fn draining_ends_with_the_message_that_was_begun() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(4096);
    hand.node.port.max_queued = 2;
    hand.post(1, SendOp::Send, &[mem.sge(0, 4096)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 4096)]);
    assert_eq!(hand.out().len(), 2);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(QpState::Sqd))
        .expect("legal");
    assert_eq!(hand.out().len(), 2);
    assert_eq!(hand.node.events, [Event::SqDrained(qpn)]);
    assert!(hand.out().is_empty());
    assert_eq!(hand.node.sent().len(), 1);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(QpState::Rts))
        .expect("legal");
    assert_eq!(hand.out().len() + hand.out().len(), 4);
    assert_eq!(hand.node.sent().len(), 1);
}
