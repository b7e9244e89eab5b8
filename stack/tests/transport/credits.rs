//! End-to-end flow control (IBTA 1.7, 9.7.7.2): a peer that counts its receives limits the requests
//! to it, and no request gets stuck.

use crate::sim::{A, B, Fate, Hand, Pair, Setup};
use roce_stack::{Duration, QpState, RemoteAddr, SendOp, Stat};
use roce_wire::{Credits, ExtHeaders, Opcode, Syndrome};

fn credits(count: u32) -> Syndrome {
    Syndrome::Ack(Credits::from_count(count))
}

fn send_many(hand: &mut Hand, wr_ids: core::ops::Range<u64>) {
    let mem = hand.mem(8);
    for wr_id in wr_ids {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
}

/// Requests go out up to the limit: receives acknowledged plus credits.
// shows: 9.7.7.2-limit, 9.7.7.2-unsolicited-taken
#[test]
fn credits_limit_sends() {
    let mut hand = Hand::new(Setup::default());
    send_many(&mut hand, 0..1);
    let first = hand.out_one().psn();
    hand.answer(first, credits(3));
    send_many(&mut hand, 1..11);
    assert_eq!(hand.out_psns(), [first + 1, first + 2, first + 3]);
    // One acknowledged, as many credits as before: one more may be sent.
    hand.answer(first + 1, credits(3));
    assert_eq!(hand.out_psns(), [first + 4]);
    // No more credits than are in use: nothing is sent.
    hand.answer(first + 2, credits(2));
    assert!(hand.out().is_empty());
    // The peer stops counting: everything is sent.
    hand.answer(first + 3, Syndrome::Ack(Credits::INVALID));
    assert_eq!(hand.out().len(), 6);
}

/// WRITE, READ and atomics need no receive and so no credit (9.7.7.2); WRITE with
/// immediate does.
// shows: 9.4.3-write-silent, 9.7.7.2-others-free
#[test]
fn only_what_consumes_a_receive_needs_credits() {
    let mut hand = Hand::new(Setup::default());
    send_many(&mut hand, 0..1);
    let first = hand.out_one().psn();
    hand.answer(first, credits(0));
    let mem = hand.mem(64);
    let remote = RemoteAddr { addr: 0, rkey: 1 };
    hand.post(1, SendOp::Write(remote), &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Read(remote), &[mem.sge(0, 8)]);
    hand.post(3, SendOp::FetchAdd { remote, add: 1 }, &[mem.sge(0, 8)]);
    hand.post(4, SendOp::WriteImm(remote, 9), &[mem.sge(0, 8)]);
    assert_eq!(hand.out_psns(), [first + 1, first + 2, first + 3]);
}

/// Without credits, one packet probes for them: it asks for an acknowledgement, and is sent only
/// when nothing else is outstanding (9.7.7.2.5).
// shows: 9.7.7.2.5-probe
#[test]
fn without_credits_a_single_packet_probes() {
    let mut hand = Hand::new(Setup::default());
    send_many(&mut hand, 0..1);
    let first = hand.out_one().psn();
    hand.answer(first, credits(0));
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 4096)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let probe = hand.out_one();
    assert_eq!(probe.opcode(), Opcode::RC_SEND_FIRST);
    assert!(probe.bth.ack_req);
    // The probe has consumed a receive: its message continues, and the next message waits.
    hand.answer(probe.psn(), credits(0));
    let rest = hand.out_psns();
    assert_eq!(rest, [first + 2, first + 3, first + 4]);
    hand.answer(first + 4, credits(0));
    assert_eq!(hand.node.sent().len(), 3 - 1);
    assert_eq!(hand.out_psns(), [first + 5]);
}

/// A message that is partly acknowledged has its receive; credits are in addition to it.
// shows: 9.7.7.2-under-way
#[test]
fn credits_are_beyond_the_message_under_way() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 2048)]);
    let psns = hand.out_psns();
    assert_eq!(psns.len(), 2);
    hand.answer(psns[0], credits(1));
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    assert_eq!(hand.out_psns(), [psns[1] + 1]);
}

/// A message in progress continues when credits decrease.
// shows: 9.7.7.2-under-way
#[test]
fn a_message_that_was_begun_with_credits_is_finished() {
    let mut hand = Hand::new(Setup {
        timeout: 0,
        window_bytes: 16 << 10,
        ..Setup::default()
    });
    let mem = hand.mem(64 << 10);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.node.port.max_queued = 3;
    hand.post(2, SendOp::Send, &[mem.sge(0, 20 << 10)]);
    let psns = hand.out_psns();
    assert_eq!(
        psns.len(),
        3,
        "the first message, and two packets of the second"
    );
    hand.node.port.max_queued = usize::MAX;
    hand.answer(psns[0], credits(0));
    let more = hand.out();
    assert!(more.len() > 1, "the message goes on");
    assert!(more.iter().any(|out| out.bth.ack_req), "and asks");
}

/// A receiver that posts slowly, with credits that fall to zero and rise again.
// shows: 9.7.7.2-no-deadlock
#[test]
fn a_slow_receiver_does_not_deadlock() {
    for rnr_timer in [1, 20] {
        let mut pair = Pair::new(Setup {
            rnr_timer,
            ..Setup::default()
        });
        let from = pair.mem(A, 4096);
        let to = pair.mem(B, 4096);
        for wr_id in 0..40 {
            let len = [0, 8, 3000][wr_id as usize % 3];
            pair.post(A, wr_id, SendOp::Send, &[from.sge(0, len)]);
        }
        for wr_id in 0..40 {
            for _ in 0..wr_id % 7 {
                pair.step();
            }
            pair.post_recv(B, wr_id, &[to.sge(0, 4096)]);
        }
        pair.run();
        let all: Vec<u64> = (0..40).collect();
        pair.assert_sent(A, &all);
        pair.assert_received(B, &all);
    }
}

/// As many receives as sends from the start: no RNR NAK, no probe.
#[test]
fn enough_receives_need_no_probe() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 64);
    let to = pair.mem(B, 64);
    for wr_id in 0..50 {
        pair.post_recv(B, wr_id, &[to.sge(0, 64)]);
    }
    for wr_id in 0..50 {
        pair.post(A, wr_id, SendOp::Send, &[from.sge(0, 64)]);
    }
    pair.pump();
    assert_eq!(pair.links[A].log.len(), 50, "all go at once");
    pair.run();
    assert_eq!(pair.nodes[B].nic.counters().stat(Stat::RnrNaksSent), 0);
    assert_eq!(pair.links[A].log.len(), 50);
}

/// A responder counts the receives beyond the one in use.
// shows: 9.7.7.2-credits-told, 9.7.7.2-credits-in-use
#[test]
fn a_responder_tells_its_receives() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    for wr_id in 0..4 {
        hand.post_recv(wr_id, &[mem.sge(0, 4096)]);
    }
    hand.request(Opcode::RC_SEND_FIRST, ExtHeaders::NONE, &[1; 1024]);
    assert_eq!(hand.out_one().syndrome(), Some(credits(3)));
    hand.request(Opcode::RC_SEND_LAST, ExtHeaders::NONE, &[1; 1024]);
    assert_eq!(hand.out_one().syndrome(), Some(credits(3)));
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[]);
    assert_eq!(hand.out_one().syndrome(), Some(credits(2)));
}

/// A receive that is posted while the peer waits after an RNR NAK is announced, so that the peer
/// need not wait for the end of a long timer.
// shows: 9.7.7.2-unsolicited, 9.7.7.2-unsolicited-taken
#[test]
fn a_receive_that_comes_late_ends_the_wait() {
    let mut pair = Pair::new(Setup {
        rnr_timer: 0, // 655 ms
        ..Setup::default()
    });
    let from = pair.mem(A, 8);
    let to = pair.mem(B, 8);
    pair.post_recv(B, 1, &[to.sge(0, 8)]);
    pair.post(A, 1, SendOp::Send, &[from.sge(0, 8)]);
    pair.post(A, 2, SendOp::Send, &[from.sge(0, 8)]);
    pair.run_until(|pair| pair.nodes[A].nic.counters().stat(Stat::RnrNaksReceived) == 1);
    let waiting = pair.now;
    pair.post_recv(B, 2, &[to.sge(0, 8)]);
    pair.run_until(|pair| {
        pair.nodes[B].recv_cq.capacity() > 0
            && pair.nodes[A].nic.queued(pair.nodes[A].qpn) == Some((0, 0))
    });
    let took = pair.now.saturating_duration_since(waiting);
    assert!(took < Duration::from_millis(1), "{took:?}");
    pair.assert_sent(A, &[1, 2]);
    pair.assert_received(B, &[1, 2]);
}

/// The announcement may be lost; then the timer decides.
// shows: 9.7.7.2-no-deadlock
#[test]
fn a_lost_announcement_costs_the_timer_only() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 8);
    let to = pair.mem(B, 8);
    pair.post_recv(B, 1, &[to.sge(0, 8)]);
    pair.post(A, 1, SendOp::Send, &[from.sge(0, 8)]);
    pair.post(A, 2, SendOp::Send, &[from.sge(0, 8)]);
    pair.run_until(|pair| pair.nodes[A].nic.counters().stat(Stat::RnrNaksReceived) == 1);
    pair.links[B].hit(&[0], Fate::Drop, |_| true);
    pair.post_recv(B, 2, &[to.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1, 2]);
    assert_eq!(pair.state(A), QpState::Rts);
}
