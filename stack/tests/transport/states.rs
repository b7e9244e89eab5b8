//! QP states: which requests can be posted, sent and received in each, and the transitions (IBTA
//! 1.7, 10.3.1 and 11.2.5.2).

use crate::sim::{A, B, Fate, Hand, Out, Pair, Setup, pattern, to_state};
use roce_stack::{
    DropReason, Event, ModifyError, PostError, QpAttributes, QpState, RecvRequest, SendOp,
    SendRequest, WcStatus,
};
use roce_wire::{ExtHeaders, Opcode, Qpn};

fn send_wr() -> SendRequest<'static> {
    SendRequest::new(1, SendOp::Send, ())
}

const RECV: RecvRequest<'static> = RecvRequest {
    wr_id: 2,
    sges: &[],
};

fn post(hand: &mut Hand) -> (Result<(), PostError>, Result<(), PostError>) {
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    (
        nic.post_send(hand.now, qpn, &send_wr()),
        nic.post_recv(hand.now, qpn, &RECV),
    )
}

fn modify(hand: &mut Hand, state: QpState) {
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(state))
        .expect("legal");
}

/// RESET accepts no posting; INIT and RTR accept receives; RTS, SQD and ERR accept both.
// shows: 10.3.1-created-reset, 10.3.1-reset-no-posting, 10.3.1-init-receives
// shows: 10.3.1-sqd-posting, 10.3.1-err-posting
#[test]
fn each_state_takes_its_postings() {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    let mut hand = Hand::in_reset(Setup::default());
    let refused = |state| Result::Err(PostError::InvalidState(state));
    assert_eq!(post(&mut hand), (refused(Reset), refused(Reset)));
    for (state, sends) in [(Init, refused(Init)), (Rtr, refused(Rtr)), (Rts, Ok(()))] {
        let mut hand = Hand::in_reset(Setup::default());
        hand.advance_to(state);
        assert_eq!(post(&mut hand), (sends, Ok(())), "{state:?}");
        assert!(hand.node.sent().is_empty() && hand.node.received().is_empty());
    }
    for (state, flushes) in [(Sqd, false), (Err, true)] {
        let mut hand = Hand::new(Setup::default());
        modify(&mut hand, state);
        assert_eq!(post(&mut hand), (Ok(()), Ok(())), "{state:?}");
        let flushed = |wr_id| (wr_id, WcStatus::WorkRequestFlushed);
        let outcomes = |done: Vec<roce_stack::Completion>| -> Vec<_> {
            done.iter().map(|c| (c.wr_id, c.status)).collect()
        };
        let (sends, receives) = (outcomes(hand.node.sent()), outcomes(hand.node.received()));
        if flushes {
            assert_eq!((sends, receives), (vec![flushed(1)], vec![flushed(2)]));
        } else {
            assert!(sends.is_empty() && receives.is_empty());
        }
    }
    let mut hand = Hand::new(Setup::default());
    let unknown = Qpn::from_bits(5);
    let nic = &mut hand.node.nic;
    assert_eq!(
        nic.post_send(hand.now, unknown, &send_wr()),
        Result::Err(PostError::UnknownQp(unknown))
    );
}

/// RESET, INIT and ERR accept no packet; RTR accepts requests only.
// shows: 9.6.1-state, 10.3.1-rtr-receives, 10.3.1-sqd-receives, 10.3.1-err-silent
#[test]
fn each_state_takes_its_packets() {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
        let mut hand = Hand::in_reset(Setup::default());
        match state {
            Reset => {}
            Sqd | Err => {
                hand.advance_to(Rts);
                modify(&mut hand, state);
            }
            _ => hand.advance_to(state),
        }
        let mem = hand.mem(8);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
        let takes = matches!(state, Rtr | Rts | Sqd);
        assert_eq!(mem.word(0) != 0, takes, "{state:?}");
        assert_eq!(hand.out().len(), usize::from(takes), "{state:?}");
        let dropped = u64::from(!takes);
        assert_eq!(hand.drops(DropReason::WrongState), dropped, "{state:?}");
        hand.ack(0x10);
        let answers = matches!(state, Rts | Sqd);
        assert_eq!(hand.drops(DropReason::GhostAck), u64::from(answers));
        assert_eq!(
            hand.drops(DropReason::WrongState),
            dropped + u64::from(!answers)
        );
    }
}

/// Receives posted in INIT wait for RTR.
// shows: 10.3.1-init-receives, 10.3.1-rtr-receives
#[test]
fn receives_posted_in_init_are_used_in_rtr() {
    let mut hand = Hand::in_reset(Setup::default());
    hand.advance_to(QpState::Init);
    let mem = hand.mem(8);
    hand.post_recv(7, &[mem.sge(0, 8)]);
    hand.advance_to(QpState::Rtr);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[3; 8]);
    assert_eq!(hand.node.received()[0].wr_id, 7);
    assert_eq!(mem.read(0, 8), [3; 8]);
    // It responds, although it may not send requests yet.
    assert_eq!(hand.out_one().opcode(), Opcode::RC_ACKNOWLEDGE);
}

/// SQD: requests in progress are finished, no others are started, and when all have completed an
/// event reports it, once; back in RTS the rest continues (10.3.1.4).
// shows: 10.3.1-sqd-finishes, 10.3.1-sqd-event, 10.3.1-sqd-posting, 11.6.3-sq-drained
#[test]
fn sqd_drains_and_rts_resumes() {
    let mut pair = Pair::new(Setup {
        window_bytes: 8 << 10,
        ..Setup::default()
    });
    let len = 50 << 10;
    let from = pair.mem(A, len);
    let to = pair.mem(B, len);
    from.write(0, &pattern(1, len));
    let write = SendOp::Write(to.remote(0));
    pair.post(A, 1, write, &[from.sge(0, len)]);
    pair.post(A, 2, write, &[from.sge(0, len)]);
    pair.pump();
    pair.modify(A, &to_state(QpState::Sqd));
    assert!(pair.nodes[A].events.is_empty(), "not drained yet");
    pair.post(A, 3, write, &[from.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert!(to.read(0, len) == pattern(1, len));
    let drained = Event::SqDrained(pair.nodes[A].qpn);
    assert_eq!(pair.nodes[A].events, [drained]);
    assert_eq!(pair.state(A), QpState::Sqd);
    pair.modify(A, &to_state(QpState::Rts));
    pair.run();
    pair.assert_sent(A, &[2, 3]);
    assert_eq!(pair.nodes[A].events, [drained]);
}

/// With nothing outstanding, the send queue is drained at once, each time that SQD is entered.
// shows: 10.3.1-sqd-event
#[test]
fn an_idle_send_queue_is_drained_at_once() {
    let mut pair = Pair::new(Setup::default());
    for times in 1..=2 {
        pair.modify(A, &to_state(QpState::Sqd));
        pair.pump();
        assert_eq!(pair.nodes[A].events.len(), times);
        pair.modify(A, &to_state(QpState::Rts));
    }
}

/// SQD also finishes requests in progress over a faulty wire, and continues to receive.
// shows: 10.3.1-sqd-finishes, 10.3.1-sqd-receives
#[test]
fn sqd_finishes_what_was_begun_despite_loss() {
    let mut pair = Pair::new(Setup::default());
    let len = 20 << 10;
    let from = pair.mem(A, len);
    let to = pair.mem(B, len);
    pair.links[A].hit(&[0, 3, 5], Fate::Drop, |_| true);
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
    pair.pump();
    pair.modify(A, &to_state(QpState::Sqd));
    pair.post_recv(A, 9, &[from.sge(0, 8)]);
    pair.post(B, 1, SendOp::Send, &[to.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    pair.assert_received(A, &[9]);
    pair.assert_sent(B, &[1]);
}

/// Attributes that were changed in SQD are in force when sending resumes.
// shows: 11.2.5.2-sqd-changes
#[test]
fn attributes_changed_in_sqd_take_effect() {
    let mut hand = Hand::new(Setup::default());
    modify(&mut hand, QpState::Sqd);
    let attributes = QpAttributes {
        timeout: Some(12),
        retry_cnt: Some(0),
        rnr_retry: Some(0),
        max_rd_atomic: Some(1),
        max_dest_rd_atomic: Some(1),
        ..QpAttributes::default()
    };
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &attributes).expect("legal");
    modify(&mut hand, QpState::Rts);
    let mem = hand.mem(64);
    for wr_id in 0..2 {
        hand.post(wr_id, SendOp::Read(mem.remote(0)), &[mem.sge(0, 8)]);
    }
    assert_eq!(hand.out().len(), 1, "max_rd_atomic");
    let at = hand.node.nic.next_timeout().expect("a timer runs");
    let timeout = at.saturating_duration_since(hand.now);
    assert_eq!(timeout.as_nanos(), 4096 << 12, "timeout");
    // Two READs at once are one too many for the responder.
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    assert_eq!(hand.state(), QpState::Err, "max_dest_rd_atomic");
    let mut hand = Hand::new(Setup::default());
    modify(&mut hand, QpState::Sqd);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &attributes).expect("legal");
    modify(&mut hand, QpState::Rts);
    hand.post(1, SendOp::Send, &[]);
    hand.out();
    hand.timeout();
    assert_eq!(hand.state(), QpState::Err, "retry_cnt");
}

/// The number of answers that are kept for duplicates is that of the last setting.
// shows: 11.2.5.2-sqd-changes, 9.7.5.1.3-kept
// trap: resources-changed
#[test]
fn sqd_changes_how_many_answers_are_kept() {
    for max in 1..=3 {
        let mut hand = Hand::new(Setup {
            dest_rd_atomic: 2,
            ..Setup::default()
        });
        modify(&mut hand, QpState::Sqd);
        let attributes = QpAttributes {
            max_dest_rd_atomic: Some(max),
            ..QpAttributes::default()
        };
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        nic.modify_qp(hand.now, qpn, &attributes).expect("legal");
        let mem = hand.mem(8);
        let first = hand.psn;
        let mut answered = [0; 3];
        for _ in 0..2 {
            hand.psn = first;
            for count in &mut answered {
                hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
                *count += hand.out().len();
            }
        }
        let expected = match max {
            1 => [1, 1, 2],
            2 => [1, 2, 2],
            _ => [2, 2, 2],
        };
        assert_eq!(answered, expected, "{max} kept");
    }
}

/// Answers that wait to be sent stay when fewer are allowed than wait.
// shows: 11.2.5.2-sqd-changes
// trap: resources-changed
#[test]
fn a_smaller_limit_drops_no_answer() {
    let mut hand = Hand::new(Setup {
        dest_rd_atomic: 3,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    hand.node.port.max_queued = 0;
    for _ in 0..3 {
        hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
    }
    assert!(hand.out().is_empty(), "the port is full");
    modify(&mut hand, QpState::Sqd);
    let attributes = QpAttributes {
        max_dest_rd_atomic: Some(1),
        ..QpAttributes::default()
    };
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &attributes).expect("legal");
    modify(&mut hand, QpState::Rts);
    hand.node.port.max_queued = 64;
    let originals = |hand: &mut Hand| -> Vec<_> {
        let of = |out: &Out| out.ext.atomic_ack.map(|ack| ack.original);
        hand.out().iter().map(of).collect()
    };
    assert_eq!(originals(&mut hand), [Some(0), Some(1), Some(2)]);
    hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
    assert_eq!(originals(&mut hand), [Some(3)]);
}

/// ERR flushes the requests in both queues, in order.
// shows: 10.3.1-err-flushes, 10.3.1-err-event, 11.6.2-flushed, 11.6.2-wr-id
// trap: flush-once
#[test]
fn going_to_err_flushes_both_queues() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 64);
    for wr_id in 0..5 {
        pair.post(A, wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        pair.post_recv(A, 10 + wr_id, &[mem.sge(8, 8)]);
    }
    pair.pump();
    pair.modify(A, &to_state(QpState::Err));
    let flushed = |ids: core::ops::Range<u64>| -> Vec<_> {
        ids.map(|id| (id, WcStatus::WorkRequestFlushed)).collect()
    };
    pair.assert_sent_as(A, &flushed(0..5));
    pair.assert_received_as(A, &flushed(10..15));
    // Requests in flight arrive or not; their answers are dropped.
    pair.run();
    assert!(pair.nodes[A].sent().is_empty());
    assert!(pair.nodes[A].events.is_empty(), "the owner needs no event");
}

/// RESET drops everything without completions; the QP can be used again, with other PSNs.
// shows: 10.3.1-reset-clears
#[test]
fn a_qp_can_be_reset_and_used_again() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 64);
    let to = pair.mem(B, 64);
    from.write(0, &[9; 8]);
    for round in 0..3 {
        pair.post_recv(B, round, &[to.sge(0, 8)]);
        pair.post(A, round, SendOp::Send, &[from.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[round]);
        pair.assert_received(B, &[round]);
        assert_eq!(to.read(0, 8), [9; 8]);
        to.write(0, &[0; 8]);
        // Requests are in flight when the QP is reset.
        pair.post(A, 100, SendOp::Write(to.remote(8)), &[from.sge(0, 8)]);
        pair.post_recv(B, 101, &[to.sge(0, 8)]);
        pair.pump();
        for side in [A, B] {
            pair.modify(side, &to_state(QpState::Reset));
            assert_eq!(
                pair.nodes[side].nic.queued(pair.nodes[side].qpn),
                Some((0, 0))
            );
        }
        pair.run();
        assert!(pair.nodes[A].sent().is_empty() && pair.nodes[B].received().is_empty());
        pair.setup.psn = [pair.setup.psn[0] + 1000, pair.setup.psn[1] + 77];
        for side in [A, B] {
            pair.connect(side);
        }
    }
}

/// A refused transition changes nothing.
// shows: 11.2.5.2-refused-unchanged, 11.2.5.3-query
#[test]
fn a_refused_transition_changes_nothing() {
    let mut hand = Hand::new(Setup::default());
    let attributes = QpAttributes {
        dest_qpn: Some(Qpn::from_bits(99)),
        ..to_state(QpState::Rtr)
    };
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    let error = nic.modify_qp(hand.now, qpn, &attributes);
    let (from, to) = (QpState::Rts, QpState::Rtr);
    assert_eq!(error, Err(ModifyError::InvalidTransition { from, to }));
    let (state, config) = nic.query_qp(qpn).expect("a QP");
    assert_eq!((state, config.dest_qpn), (from, crate::sim::PEER_QPN));
    let missing = Qpn::from_bits(5);
    let error = nic.modify_qp(hand.now, missing, &attributes);
    assert_eq!(error, Err(ModifyError::UnknownQp(missing)));
}

/// The event of the peer's first packet is raised in RTR, once; in RTS the application does not
/// need it (IBTA 1.7, 11.6.3).
// shows: 11.6.3-comm-est
#[test]
fn the_first_packet_in_rtr_is_told() {
    let mut hand = Hand::in_reset(Setup::default());
    hand.advance_to(QpState::Rtr);
    let mem = hand.mem(8);
    // A packet of another sender raises no event.
    let mut elsewhere = hand.meta();
    elsewhere.src = hand.setup.ip.address(9);
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    hand.deliver_from(elsewhere, bth, mem.reth(0, 8), &[1; 8]);
    assert!(hand.node.events.is_empty());
    let told = Event::CommEstablished(hand.node.qpn);
    for _ in 0..2 {
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
        assert_eq!(hand.node.events, [told]);
    }
    // A new connection raises it again.
    modify(&mut hand, QpState::Reset);
    hand.advance_to(QpState::Rtr);
    hand.psn = hand.setup.psn[1];
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    assert_eq!(hand.node.events, [told, told]);
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    assert!(hand.node.events.is_empty());
}
