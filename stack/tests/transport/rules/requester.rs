//! How a requester handles answers, and when it is done (IBTA 1.7, 9.7.6).

use crate::sim::{Hand, Setup};
use core::time::Duration;
use roce_stack::{DropReason, QpState, SendFlags, SendOp, Stat, WcOpcode, WcStatus};
use roce_wire::{Aeth, AtomicAckEth, Credits, ExtHeaders, NakCode, Opcode, RnrTimer, Syndrome};

fn response(hand: &mut Hand, opcode: Opcode, psn: u32, payload: &[u8]) {
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        atomic_ack: Some(AtomicAckEth { original: 1 }),
        ..ExtHeaders::NONE
    };
    hand.deliver(hand.bth(opcode, psn), ext, payload);
}

fn done(hand: &Hand) -> Vec<u64> {
    let sent = hand.node.sent();
    assert!(sent.iter().all(|c| c.status == WcStatus::Success));
    sent.iter().map(|c| c.wr_id).collect()
}

// shows: 9.7.1-initial-psn
#[test]
fn the_first_request_carries_the_psn_of_rts() {
    for psn in [0, 1, 0x80_0000, 0xff_ffff] {
        let mut hand = Hand::new(Setup {
            psn: [psn, 5],
            ..Setup::default()
        });
        hand.post(1, SendOp::Send, &[]);
        hand.post(2, SendOp::Send, &[]);
        assert_eq!(hand.out_psns(), [psn, (psn + 1) & 0xff_ffff]);
    }
}

/// A READ owns the PSNs of its responses, at least one.
// shows: 9.7.3.1-read-psns
#[test]
fn the_psn_after_a_read_is_beyond_its_responses() {
    for (len, psns) in [(0, 1), (1, 1), (1024, 1), (1025, 2), (4096, 4)] {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(8192);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, len)]);
        hand.post(2, SendOp::Send, &[]);
        let first = hand.setup.psn[0];
        assert_eq!(hand.out_psns(), [first, first + psns], "{len} bytes");
    }
}

/// The response to a READ acknowledges the SENDs and WRITEs before it, and none behind it.
// shows: 9.7.6.1-response-completes
#[test]
fn a_response_completes_what_precedes_its_request() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[]);
    hand.post(2, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.post(3, SendOp::Read(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.post(4, SendOp::Send, &[]);
    let psns = hand.out_psns();
    response(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psns[2], &[5; 8]);
    assert_eq!(done(&hand), [1, 2, 3]);
    assert_eq!(mem.read(0, 8), [5; 8]);
}

/// A NAK that the network delayed until its request was acknowledged is ignored, with any code.
// shows: 9.7.6.1-old-nak
#[test]
fn a_nak_of_what_is_acknowledged_is_ignored() {
    let mut hand = Hand::new(Setup::default());
    hand.post(1, SendOp::Send, &[]);
    hand.post(2, SendOp::Send, &[]);
    let psns = hand.out_psns();
    hand.ack(psns[0]);
    assert_eq!(done(&hand), [1]);
    let naks = [
        Syndrome::Nak(NakCode::PsnSequenceError),
        Syndrome::Nak(NakCode::RemoteAccessError),
        Syndrome::RnrNak(RnrTimer::SHORTEST),
    ];
    for nak in naks {
        hand.answer(psns[0], nak);
    }
    assert_eq!(hand.drops(DropReason::DuplicateResponse), 3);
    assert_eq!(hand.state(), QpState::Rts);
    assert!(hand.out().is_empty());
    hand.ack(psns[1]);
    assert_eq!(done(&hand), [2]);
}

/// A copy of a READ response does not overwrite the bytes that the application has put there since.
// shows: 9.7.6.1-duplicate-response
#[test]
fn a_duplicate_response_is_not_placed_again() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(2048);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2048)]);
    let psn = hand.out_one().psn();
    response(&mut hand, Opcode::RC_READ_RESPONSE_FIRST, psn, &[5; 1024]);
    assert_eq!(mem.read(0, 1024), [5; 1024]);
    mem.write(0, &[6; 1024]);
    response(&mut hand, Opcode::RC_READ_RESPONSE_FIRST, psn, &[5; 1024]);
    assert_eq!(mem.read(0, 1024), [6; 1024]);
    assert_eq!(hand.drops(DropReason::DuplicateResponse), 1);
    response(
        &mut hand,
        Opcode::RC_READ_RESPONSE_LAST,
        psn + 1,
        &[7; 1024],
    );
    assert_eq!(done(&hand), [1]);
}

/// The timeout counts from the last progress, not from the first packet.
// shows: 9.7.6.1.3-timeout-restarts
#[test]
fn progress_restarts_the_timeout() {
    let mut hand = Hand::new(Setup::default());
    hand.post(1, SendOp::Send, &[]);
    hand.post(2, SendOp::Send, &[]);
    let psns = hand.out_psns();
    let timeout = Duration::from_nanos(4096 << hand.setup.timeout);
    hand.now = hand.now + timeout / 2;
    hand.ack(psns[0]);
    hand.now = hand.now + timeout * 3 / 4;
    hand.node.nic.handle_timeouts(hand.now);
    assert!(hand.out().is_empty(), "not yet");
    assert_eq!(hand.stat(Stat::Timeouts), 0);
    hand.now = hand.now + timeout / 4;
    hand.node.nic.handle_timeouts(hand.now);
    assert_eq!(hand.out_psns(), [psns[1]]);
}

/// A peer that stops counting its receives no longer limits the requester.
// shows: 9.7.7.2-no-count
#[test]
fn credits_without_a_count_lift_the_limit() {
    let mut hand = Hand::new(Setup::default());
    for wr_id in 0..8 {
        hand.post(wr_id, SendOp::Send, &[]);
        if wr_id == 0 {
            let psn = hand.out_one().psn();
            hand.answer(psn, Syndrome::Ack(Credits::from_count(2)));
        }
    }
    let psns = hand.out_psns();
    assert_eq!(psns.len(), 2, "one for each credit");
    hand.answer(psns[1], Syndrome::Ack(Credits::INVALID));
    assert_eq!(hand.out().len(), 5);
}

/// Completed requests are not retransmitted: their memory belongs to the application, and may be
/// gone. Here an acknowledgement arrives between a NAK and the retransmission.
// shows: 10.8.6-own-memory-back
#[test]
fn nothing_is_sent_of_a_request_that_completed() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 1..=3 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    let psns = hand.out_psns();
    hand.nak(psns[0], NakCode::PsnSequenceError);
    hand.ack(psns[1]);
    assert_eq!(done(&hand), [1, 2]);
    assert_eq!(hand.out_psns(), psns[2..]);
}

// shows: 10.8.5-signal-all
#[test]
fn a_qp_may_signal_everything() {
    for signal_all in [false, true] {
        let mut hand = Hand::new(Setup {
            signal_all,
            ..Setup::default()
        });
        hand.post_with(1, SendOp::Send, &[], SendFlags::empty());
        let psn = hand.out_one().psn();
        hand.ack(psn);
        assert_eq!(done(&hand).len(), usize::from(signal_all));
    }
}

// shows: 11.6.1-opcode
#[test]
fn every_completion_says_what_it_was() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let remote = mem.remote(0);
    let swap = SendOp::CompareSwap {
        remote,
        compare: 0,
        swap: 0,
    };
    let expected = [
        (SendOp::Send, WcOpcode::Send),
        (SendOp::SendImm(1), WcOpcode::Send),
        (SendOp::SendInvalidate(1), WcOpcode::Send),
        (SendOp::Write(remote), WcOpcode::RdmaWrite),
        (SendOp::WriteImm(remote, 1), WcOpcode::RdmaWrite),
        (SendOp::Read(remote), WcOpcode::RdmaRead),
        (swap, WcOpcode::CompareSwap),
        (SendOp::FetchAdd { remote, add: 0 }, WcOpcode::FetchAdd),
    ];
    for (op, opcode) in expected {
        hand.post(1, op, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        match opcode {
            WcOpcode::RdmaRead => {
                response(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psn, &[0; 8]);
            }
            WcOpcode::CompareSwap | WcOpcode::FetchAdd => {
                response(&mut hand, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, &[]);
            }
            _ => hand.ack(psn),
        }
        let sent = hand.node.sent();
        assert_eq!(sent.len(), 1, "{op:?}");
        assert_eq!(
            (sent[0].opcode, sent[0].status),
            (opcode, WcStatus::Success)
        );
    }
    for _ in 0..2 {
        hand.post_recv(1, &[]);
    }
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[]);
    hand.request(Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE, mem.reth(0, 0), &[]);
    let opcodes: Vec<_> = hand.node.received().iter().map(|c| c.opcode).collect();
    assert_eq!(opcodes, [WcOpcode::Recv, WcOpcode::RecvRdmaWithImm]);
}

/// An error always completes, signaled or not.
// shows: 10.8.5-unsignaled
#[test]
fn an_unsignaled_request_that_fails_says_so() {
    let mut hand = Hand::new(Setup {
        signal_all: false,
        ..Setup::default()
    });
    hand.post_with(1, SendOp::Send, &[], SendFlags::empty());
    hand.post_with(2, SendOp::Send, &[], SendFlags::empty());
    let psns = hand.out_psns();
    hand.nak(psns[0], NakCode::InvalidRequest);
    let sent = hand.node.sent();
    let ids: Vec<_> = sent.iter().map(|c| (c.wr_id, c.status)).collect();
    let failed = (1, WcStatus::RemoteInvalidRequest);
    assert_eq!(ids, [failed, (2, WcStatus::WorkRequestFlushed)]);
}
