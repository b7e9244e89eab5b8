//! Edge cases of a requester's timers: when they start, what restarts them, and what they must not
//! report (IBTA 1.7, 9.7.6.1.3).

use crate::sim::{Hand, Mem, Setup};
use roce_stack::{Duration, SendOp, Stat};
use roce_wire::{RnrTimer, Syndrome};

/// A requester with a known round trip of 10 us. Its local ACK timeout is about 1 ms.
fn timed() -> (Hand, Mem) {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 0..30 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        pass(&mut hand, 10);
        hand.ack(psn);
    }
    (hand, mem)
}

/// Advances the time, and runs the timers that are due.
fn pass(hand: &mut Hand, us: u64) {
    hand.now = hand.now + Duration::from_micros(us);
    hand.node.nic.handle_timeouts(hand.now);
}

/// The timeout of one request does not affect the next.
#[test]
fn a_timer_stops_when_everything_is_acknowledged() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.ack(psn);
    pass(&mut hand, 1000);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.out_one();
    pass(&mut hand, 900);
    assert_eq!(hand.stat(Stat::Timeouts), 0);
    pass(&mut hand, 200);
    assert_eq!(hand.stat(Stat::Timeouts), 1);
}

/// The same for the timer for late responses.
#[test]
fn an_answer_is_late_by_its_own_request() {
    let (mut hand, mem) = timed();
    for wr_id in 0..10 {
        // Far enough apart that a leftover timer would find the request late at once.
        pass(&mut hand, 19);
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        pass(&mut hand, 10);
        hand.ack(psn);
    }
    assert_eq!(hand.stat(Stat::LateAnswers), 0);
}

/// After an acknowledgement of some requests, the timer for the next still runs.
#[test]
fn the_answer_after_the_next_can_be_late() {
    let (mut hand, mem) = timed();
    for wr_id in [1, 2] {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    let psns = hand.out_psns();
    pass(&mut hand, 10);
    hand.ack(psns[0]);
    pass(&mut hand, 100);
    assert_eq!(hand.stat(Stat::LateAnswers), 1);
    assert_eq!(hand.stat(Stat::Timeouts), 0);
}

/// Only a timeout can be spurious, not a pause that the peer requested.
#[test]
fn a_pause_for_the_receiver_is_no_timeout_for_nothing() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 1..=3 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    let psns = hand.out_psns();
    hand.answer(psns[0], Syndrome::RnrNak(RnrTimer::SHORTEST));
    hand.ack(psns[2]);
    assert_eq!(hand.node.sent().len(), 3);
    assert_eq!(hand.stat(Stat::SpuriousTimeouts), 0);
}
