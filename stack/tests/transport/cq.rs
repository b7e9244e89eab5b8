//! Completion queues: overrun and notification (IBTA 1.7, 10.10.2, 11.4.2.2 and
//! 11.6.3.1).

use crate::sim::{A, B, Hand, Pair, Setup};
use roce_stack::{
    CqId, CqOverrun, Event, Notify, PostError, QpKind, QpState, QueueLimits, RecvRequest,
    SendFlags, SendOp, SendRequest, Sge, WcStatus,
};
use roce_wire::{ExtHeaders, NakCode, Opcode};

/// An overrun loses only the completions that don't fit. An event and the next poll report it, and
/// the QP fails.
// shows: 10.10.2-cq-overrun, 11.6.3-cq-error, 11.6.3-qp-fatal
#[test]
fn an_overrun_is_found_out_and_overwrites_nothing() {
    let mut pair = Pair::new(Setup {
        cq_entries: 3,
        ..Setup::default()
    });
    let from = pair.mem(A, 8);
    let to = pair.mem(B, 8);
    for wr_id in 0..6 {
        pair.post(A, wr_id, SendOp::Write(to.remote(0)), &[from.sge(0, 8)]);
    }
    pair.post_recv(A, 10, &[]);
    pair.run();
    let node = &pair.nodes[A];
    assert_eq!(
        node.events,
        [Event::CqError(CqId(1)), Event::QpFatal(node.qpn)]
    );
    for wr_id in 0..3 {
        let done = node
            .send_cq
            .poll()
            .expect("still there")
            .expect("a completion");
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
    let overrun = CqOverrun { capacity: 3 };
    assert_eq!(node.send_cq.poll(), Err(overrun));
    assert_eq!(node.send_cq.poll(), Err(overrun), "for good");
    assert_eq!(pair.state(A), QpState::Err);
    // The other CQ works and gets its flushed receive.
    pair.assert_received_as(A, &[(10, WcStatus::WorkRequestFlushed)]);
    assert_eq!(pair.nodes[A].nic.queued(pair.nodes[A].qpn), Some((0, 0)));
}

/// A request fails, but its CQ has no room for the completions that report it: an event does.
// shows: 10.3.1-err-event, 11.6.3-qp-fatal, 11.6.3-not-twice
#[test]
fn a_failure_raises_an_event_if_its_completions_find_no_room() {
    let bad = Sge {
        addr: 8,
        length: 64,
        lkey: 1,
    };
    for entries in [1, 2, 3] {
        let mut pair = Pair::new(Setup {
            cq_entries: entries,
            ..Setup::default()
        });
        for wr_id in 0..3 {
            pair.post(A, wr_id, SendOp::Send, &[bad]);
        }
        pair.run();
        assert_eq!(pair.state(A), QpState::Err);
        let node = &pair.nodes[A];
        let lost = [Event::CqError(CqId(1)), Event::QpFatal(node.qpn)];
        let expected: &[Event] = if entries < 3 { &lost } else { &[] };
        assert_eq!(node.events, expected, "{entries} entries");
    }
}

/// The same at the receiving end.
// shows: 10.10.2-cq-overrun
#[test]
fn an_overrun_of_the_receive_cq_fails_the_qp() {
    let mut pair = Pair::new(Setup {
        cq_entries: 1,
        signal_all: false,
        ..Setup::default()
    });
    for wr_id in 0..2 {
        pair.post_recv(B, wr_id, &[]);
        pair.post_with(A, wr_id, SendOp::Send, &[], SendFlags::empty());
    }
    pair.run();
    assert_eq!(pair.state(B), QpState::Err);
    assert!(pair.nodes[B].recv_cq.poll().expect("one fits").is_some());
    assert!(pair.nodes[B].recv_cq.poll().is_err());
}

fn notified(hand: &mut Hand, id: u64) -> bool {
    hand.node.take_events();
    let events = std::mem::take(&mut hand.node.events);
    events.contains(&Event::CqNotify(CqId(id)))
}

/// The event is raised once for each request, and only if it was requested.
// shows: 10.8.7-notify-once, 10.8.7-notify-after
#[test]
fn a_notification_is_asked_for_each_time() {
    let mut hand = Hand::new(Setup::default());
    for wr_id in 0..6 {
        hand.post(wr_id, SendOp::Send, &[]);
    }
    let psns = hand.out_psns();
    hand.ack(psns[0]);
    assert!(!notified(&mut hand, 1), "no event was requested");
    hand.node.send_cq.request_notify(Notify::Next);
    assert!(!notified(&mut hand, 1), "what is there raises none");
    hand.ack(psns[1]);
    assert!(notified(&mut hand, 1));
    hand.ack(psns[2]);
    assert!(!notified(&mut hand, 1), "once");
}

/// "Solicited" waits for a message whose sender requested an event, or for a failure.
// shows: 10.8.7-solicited, 10.8.7-next-outweighs
#[test]
fn solicited_notifications_wait_for_a_solicited_message() {
    let mut hand = Hand::new(Setup::default());
    for wr_id in 0..5 {
        hand.post_recv(wr_id, &[]);
    }
    hand.node.recv_cq.request_notify(Notify::Solicited);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[]);
    assert!(!notified(&mut hand, 2));
    let mut bth = hand.bth(Opcode::RC_SEND_ONLY, hand.psn);
    hand.psn += 1;
    bth.solicited = true;
    hand.deliver(bth, ExtHeaders::NONE, &[]);
    assert!(notified(&mut hand, 2));
    // A request for all takes precedence over an earlier one for solicited, not the reverse.
    hand.node.recv_cq.request_notify(Notify::Next);
    hand.node.recv_cq.request_notify(Notify::Solicited);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[]);
    assert!(notified(&mut hand, 2));
    // A WRITE with immediate can be solicited, too.
    hand.node.recv_cq.request_notify(Notify::Solicited);
    let mut bth = hand.bth(Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE, hand.psn);
    bth.solicited = true;
    hand.deliver(bth, ExtHeaders::NONE, &[]);
    assert!(notified(&mut hand, 2));
    // So are failures.
    hand.node.recv_cq.request_notify(Notify::Solicited);
    hand.node.send_cq.request_notify(Notify::Solicited);
    hand.post(9, SendOp::Send, &[]);
    let out = hand.out();
    let psn = out[0].psn();
    assert_eq!(out[0].opcode(), Opcode::RC_SEND_ONLY);
    hand.nak(psn, NakCode::InvalidRequest);
    hand.node.take_events();
    assert!(hand.node.events.contains(&Event::CqNotify(CqId(2))));
    assert!(notified(&mut hand, 1));
}

/// The sender's flag arrives only with the message's last packet.
// shows: 9.7.3-solicited-last
#[test]
fn the_solicited_bit_is_on_the_last_packet_of_what_consumes_a_receive() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    let flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
    hand.post_with(1, SendOp::Send, &[mem.sge(0, 3000)], flags);
    hand.post_with(2, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)], flags);
    let write = SendOp::WriteImm(mem.remote(0), 1);
    hand.post_with(3, write, &[mem.sge(0, 2000)], flags);
    let bits: Vec<_> = hand.out().iter().map(|o| o.bth.solicited).collect();
    assert_eq!(bits, [false, false, true, false, false, true]);
}

const DEPTH: usize = 4;

/// A NIC whose queues have room for four requests.
fn short_queues(kind: QpKind) -> Hand {
    let queue = QueueLimits {
        depth: DEPTH,
        max_sge: 1,
    };
    Hand::new(Setup {
        kind,
        queue,
        signal_all: false,
        ..Setup::default()
    })
}

/// Posts SENDs of no bytes until there is no room. Returns their number.
fn fill(hand: &mut Hand, flags: SendFlags) -> usize {
    let (op, sges) = (SendOp::Send, &[][..]);
    let wr = SendRequest::new(0, op, sges).with_flags(flags);
    let node = &mut hand.node;
    let mut post = || node.nic.post_send(hand.now, node.qpn, &wr);
    let posted = (0..2 * DEPTH).take_while(|_| post().is_ok()).count();
    assert_eq!(post(), Err(PostError::QueueFull { depth: DEPTH }));
    posted
}

fn fill_receives(hand: &mut Hand) -> usize {
    let wr = RecvRequest {
        wr_id: 0,
        sges: &[],
    };
    let node = &mut hand.node;
    let mut post = || node.nic.post_recv(hand.now, node.qpn, &wr);
    let posted = (0..2 * DEPTH).take_while(|_| post().is_ok()).count();
    assert_eq!(post(), Err(PostError::QueueFull { depth: DEPTH }));
    posted
}

/// A program that posts while there is room can't make a CQ overrun that holds as much as the
/// queues together.
// shows: 11.4.2.1-freed-when-taken
#[test]
fn a_send_has_its_room_until_its_completion_is_taken() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        let mut hand = short_queues(kind);
        assert_eq!(fill(&mut hand, SendFlags::SIGNALED), DEPTH);
        let psns = hand.out_psns();
        if kind == QpKind::Rc {
            hand.ack(psns[DEPTH - 1]);
        }
        assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((0, 0)));
        assert_eq!(fill(&mut hand, SendFlags::SIGNALED), 0, "{kind}");
        for _ in 0..2 {
            hand.node.send_cq.poll().expect("well").expect("one");
        }
        assert_eq!(fill(&mut hand, SendFlags::SIGNALED), 2, "{kind}");
    }
}

/// A request without a completion occupies its queue entry only until it is executed.
// shows: 10.8.5-unsignaled-frees
#[test]
fn a_send_without_completion_has_its_room_until_it_is_done() {
    let mut hand = short_queues(QpKind::Rc);
    for _ in 0..3 {
        assert_eq!(fill(&mut hand, SendFlags::empty()), DEPTH);
        let psns = hand.out_psns();
        hand.ack(psns[DEPTH - 1]);
    }
}

// shows: 11.4.2.1-freed-when-taken
#[test]
fn a_receive_has_its_room_until_its_completion_is_taken() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        let mut hand = short_queues(kind);
        assert_eq!(fill_receives(&mut hand), DEPTH);
        let opcode = match kind {
            QpKind::Uc => Opcode::UC_SEND_ONLY,
            _ => Opcode::RC_SEND_ONLY,
        };
        for _ in 0..3 {
            hand.request(opcode, ExtHeaders::NONE, &[]);
        }
        assert_eq!(fill_receives(&mut hand), 0, "{kind}");
        hand.node.recv_cq.poll().expect("well").expect("one");
        assert_eq!(fill_receives(&mut hand), 1, "{kind}");
    }
}

/// A request that is flushed when it is posted occupies one queue entry until it is polled.
// shows: 11.4.2.1-freed-when-taken
#[test]
fn what_is_flushed_at_once_has_room_until_it_is_taken() {
    let mut hand = short_queues(QpKind::Rc);
    hand.modify(QpState::Err);
    assert_eq!(fill(&mut hand, SendFlags::empty()), DEPTH);
    assert_eq!(fill_receives(&mut hand), DEPTH);
    assert_eq!(hand.node.sent().len(), DEPTH);
    assert_eq!(hand.node.received().len(), DEPTH);
    assert_eq!(fill(&mut hand, SendFlags::empty()), DEPTH);
    assert_eq!(fill_receives(&mut hand), DEPTH);
}

/// RESET drops the QP's completions, and frees the queue entries that they occupied.
#[test]
fn a_reset_gives_all_room_back() {
    let mut hand = short_queues(QpKind::Rc);
    fill(&mut hand, SendFlags::SIGNALED);
    let psns = hand.out_psns();
    hand.ack(psns[DEPTH - 1]);
    hand.modify(QpState::Reset);
    hand.advance_to(QpState::Rts);
    assert_eq!(fill(&mut hand, SendFlags::SIGNALED), DEPTH);
}
