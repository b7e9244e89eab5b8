//! Small unsignaled WRITEs, with or without immediate data: not each of them requests an acknowledgement, but each gets one in the
//! end.

use crate::sim::{Hand, Mem, Out, Setup};
use roce_stack::{Duration, QueueLimits, SendFlags, SendOp, Stat};
use roce_wire::{Credits, NakCode, Syndrome};

const MTU: usize = 1024;
/// One in this number of consecutive WRITEs requests an acknowledgement.
const ASKS: usize = 16;

/// A requester with a known round trip of 10 us. Its local ACK timeout is `timeout`, and its send
/// queue has room for `depth` requests.
fn timed_with(timeout: u8, depth: usize) -> (Hand, Mem) {
    let setup = Setup {
        timeout,
        queue: QueueLimits { depth, max_sge: 1 },
        signal_all: false,
        ..Setup::default()
    };
    let mut hand = Hand::new(setup);
    let mem = hand.mem(2 * MTU);
    for wr_id in 0..30 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        pass(&mut hand, 10);
        hand.ack(psn);
        hand.node.sent();
    }
    (hand, mem)
}

fn timed() -> (Hand, Mem) {
    timed_with(10, 64)
}

/// Advances the time, and runs the timers that are due.
fn pass(hand: &mut Hand, us: u64) {
    hand.now = hand.now + Duration::from_micros(us);
    hand.node.nic.handle_timeouts(hand.now);
}

/// Posts a request of `len` bytes and returns its last packet.
fn send(hand: &mut Hand, mem: &Mem, op: SendOp, len: usize, flags: SendFlags) -> Out {
    hand.post_with(1, op, &[mem.sge(0, len)], flags);
    hand.out().pop().expect("a packet")
}

fn write(hand: &mut Hand, mem: &Mem) -> Out {
    let op = SendOp::Write(mem.remote(0));
    send(hand, mem, op, 8, SendFlags::empty())
}

fn queued(hand: &Hand) -> usize {
    hand.node.nic.queued(hand.node.qpn).expect("a QP").0
}

// shows: 9.7.3-ask-at-end
#[test]
fn one_in_a_few_asks() {
    let (mut hand, mem) = timed();
    let mut asking = Vec::new();
    for n in 1..=3 * ASKS {
        let out = write(&mut hand, &mem);
        pass(&mut hand, 2);
        if out.bth.ack_req {
            asking.push(n);
            pass(&mut hand, 10);
            hand.ack(out.psn());
            assert_eq!(queued(&hand), 0, "an acknowledgement is of all before it");
        }
    }
    assert_eq!(asking, [ASKS, 2 * ASKS, 3 * ASKS]);
    assert_eq!(hand.stat(Stat::Retransmitted), 0);
}

/// A queue must not fill up with requests that have not requested an acknowledgement.
#[test]
fn a_short_queue_asks_more_often() {
    let (mut hand, mem) = timed_with(10, 8);
    let asks: Vec<bool> = (0..4).map(|_| write(&mut hand, &mem).bth.ack_req).collect();
    assert_eq!(asks, [false, true, false, true]);
}

#[test]
fn what_somebody_waits_for_asks() {
    let write = |mem: &Mem| SendOp::Write(mem.remote(0));
    let imm = |mem: &Mem| SendOp::WriteImm(mem.remote(0), 7);
    let send_op = |_: &Mem| SendOp::Send;
    type Op = fn(&Mem) -> SendOp;
    let cases: [(&str, Op, usize, SendFlags); 5] = [
        ("a small WRITE", write, 8, SendFlags::empty()),
        ("one with immediate data", imm, 8, SendFlags::empty()),
        ("one with a completion", write, 8, SendFlags::SIGNALED),
        ("one of two packets", write, MTU + 1, SendFlags::empty()),
        ("a SEND", send_op, 8, SendFlags::empty()),
    ];
    for (index, (what, op, len, flags)) in cases.into_iter().enumerate() {
        let (mut hand, mem) = timed();
        let op = op(&mem);
        let out = send(&mut hand, &mem, op, len, flags);
        assert_eq!(out.bth.ack_req, index > 1, "{what}");
    }
}

/// The peer's receives are counted in its acknowledgements.
#[test]
fn what_the_last_credits_pay_for_asks() {
    for (receives, asks) in [(24, false), (ASKS as u32, true)] {
        let (mut hand, mem) = timed();
        let psn = write(&mut hand, &mem).psn();
        hand.answer(psn, Syndrome::Ack(Credits::from_count(receives)));
        let imm = SendOp::WriteImm(mem.remote(0), 7);
        let out = send(&mut hand, &mem, imm, 8, SendFlags::empty());
        assert_eq!(out.bth.ack_req, asks, "{receives}");
        assert!(!write(&mut hand, &mem).bth.ack_req, "it needs no receive");
    }
}

/// An occasional WRITE always requests an acknowledgement, because no packet that requests one
/// would follow.
#[test]
fn after_a_pause_one_asks() {
    let (mut hand, mem) = timed();
    pass(&mut hand, 140);
    assert!(!write(&mut hand, &mem).bth.ack_req);
    pass(&mut hand, 13);
    assert!(write(&mut hand, &mem).bth.ack_req);
    assert!(!write(&mut hand, &mem).bth.ack_req);
}

#[test]
fn all_ask_while_the_round_trip_is_unknown_or_the_timeout_near() {
    let mut hand = Hand::new(Setup {
        signal_all: false,
        ..Setup::default()
    });
    let mem = hand.mem(64);
    assert!(write(&mut hand, &mem).bth.ack_req);
    // 524 us, and 2 ms.
    for (timeout, asks) in [(7, true), (9, false)] {
        let (mut hand, mem) = timed_with(timeout, 64);
        assert_eq!(write(&mut hand, &mem).bth.ack_req, asks, "{timeout}");
    }
}

/// The newest packet is retransmitted, and now requests an acknowledgement.
#[test]
fn when_nothing_follows_it_is_asked_at_last() {
    let (mut hand, mem) = timed();
    let psns: Vec<u32> = (0..5).map(|_| write(&mut hand, &mem).psn()).collect();
    pass(&mut hand, 150);
    assert!(hand.out().is_empty(), "others may follow");
    pass(&mut hand, 50);
    let question = hand.out_one();
    assert_eq!(question.psn(), psns[4]);
    assert!(question.bth.ack_req);
    pass(&mut hand, 10);
    hand.ack(psns[4]);
    assert_eq!(queued(&hand), 0);
    assert_eq!(hand.stat(Stat::LateAnswers), 0, "no packet had asked");
    assert_eq!(hand.stat(Stat::Timeouts), 0);
    hand.now = hand.now + Duration::from_millis(100);
    hand.node.nic.handle_timeouts(hand.now);
    assert!(hand.out().is_empty(), "no timer is left");
}

/// Each further packet postpones the request for an acknowledgement.
#[test]
fn while_others_follow_nothing_is_sent_twice() {
    let (mut hand, mem) = timed();
    for _ in 0..10 {
        write(&mut hand, &mem);
        pass(&mut hand, 15);
        assert!(hand.out().is_empty());
    }
}

#[test]
fn a_question_without_answer_is_late_as_any_other() {
    let (mut hand, mem) = timed();
    let psns: Vec<u32> = (0..3).map(|_| write(&mut hand, &mem).psn()).collect();
    pass(&mut hand, 200);
    assert_eq!(hand.out_psns(), [psns[2]]);
    pass(&mut hand, 40);
    assert_eq!(hand.stat(Stat::LateAnswers), 1);
    assert_eq!(hand.out_psns(), [psns[0], psns[2]]);
}

/// The timer of a packet that requests an acknowledgement is the same, whichever packets around it
/// request none.
#[test]
fn an_answer_is_late_among_those_that_were_spared() {
    for (before, behind) in [(3, 0), (0, 3), (2, 2)] {
        let (mut hand, mem) = timed();
        (0..before).for_each(|_| drop(write(&mut hand, &mem)));
        hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
        hand.out_one();
        (0..behind).for_each(|_| drop(write(&mut hand, &mem)));
        pass(&mut hand, 15);
        assert_eq!(hand.stat(Stat::LateAnswers), 0);
        pass(&mut hand, 20);
        assert_eq!(hand.stat(Stat::LateAnswers), 1, "{before} {behind}");
    }
}

/// After its answer, the timer of those behind it starts again.
#[test]
fn an_answer_leaves_those_behind_it_spared() {
    let (mut hand, mem) = timed();
    let asked = send(
        &mut hand,
        &mem,
        SendOp::Write(mem.remote(0)),
        8,
        SendFlags::SIGNALED,
    );
    write(&mut hand, &mem);
    pass(&mut hand, 10);
    hand.ack(asked.psn());
    pass(&mut hand, 150);
    assert!(hand.out().is_empty());
    pass(&mut hand, 50);
    assert!(hand.out_one().bth.ack_req);
    assert_eq!(hand.stat(Stat::LateAnswers), 0);
}

/// The peer sends a NAK for a gap, whether or not a packet requested an acknowledgement.
#[test]
fn what_was_lost_is_sent_again_and_asks() {
    let (mut hand, mem) = timed();
    let psns: Vec<u32> = (0..3).map(|_| write(&mut hand, &mem).psn()).collect();
    hand.nak(psns[1], NakCode::PsnSequenceError);
    let again = hand.out();
    assert_eq!(again[0].psn(), psns[1]);
    assert!(again.iter().all(|out| out.bth.ack_req));
    pass(&mut hand, 10);
    hand.ack(psns[2]);
    assert_eq!(queued(&hand), 0);
}

/// A peer that keeps no out-of-order packets gets all of them again.
#[test]
fn what_is_sent_again_asks() {
    let (mut hand, mem) = timed();
    let psns: Vec<u32> = (0..5).map(|_| write(&mut hand, &mem).psn()).collect();
    hand.nak(psns[1], NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), [psns[1]]);
    pass(&mut hand, 10);
    hand.ack(psns[1]);
    let again = hand.out();
    assert_eq!(again.iter().map(Out::psn).collect::<Vec<_>>(), psns[2..]);
    assert!(again.iter().all(|out| out.bth.ack_req));
}
