//! Waiting and retrying: the local ACK timeout, the RNR timer, and their retry limits (IBTA 1.7,
//! 9.7.6.1.3, 9.7.5.2.8 and 9.9.2.1).

use crate::sim::{A, B, Fate, Hand, Pair, Setup};
use roce_stack::{Duration, Instant, QpState, SendOp, Stat, WcStatus};
use roce_wire::{NakCode, Opcode, RnrTimer, Syndrome};

/// The time until the NIC's next deadline.
fn until_timeout(hand: &Hand) -> Duration {
    let at = hand.node.nic.next_timeout().expect("a timer runs");
    at.saturating_duration_since(hand.now)
}

/// Runs timers until a packet is sent or the QP fails.
fn next_attempt(hand: &mut Hand) -> (Duration, Vec<u32>) {
    let from = hand.now;
    for _ in 0..10 {
        hand.timeout();
        let psns = hand.out_psns();
        if !psns.is_empty() || hand.state() == QpState::Err {
            return (hand.now.saturating_duration_since(from), psns);
        }
    }
    panic!("nothing happens");
}

/// The timeout is 4.096 us x 2^n (9.7.6.1.3).
// shows: 9.7.6.1.3-timeout, 9.7.6.1.3-timeout-resends
// trap: ack-timeout
#[test]
fn the_ack_timeout_is_a_power_of_two() {
    for timeout in [1_u8, 8, 14, 31] {
        let mut hand = Hand::new(Setup {
            timeout,
            ..Setup::default()
        });
        let mem = hand.mem(8);
        hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        assert_eq!(
            until_timeout(&hand),
            Duration::from_nanos(4096 << u32::from(timeout))
        );
        hand.timeout();
        assert_eq!(hand.out_psns(), [psn]);
    }
}

/// Timeout 0 means no timeout (9.7.6.1.3).
// shows: 9.7.6.1.3-timeout-zero
// trap: ack-timeout
#[test]
fn timeout_zero_never_comes() {
    let mut hand = Hand::new(Setup {
        timeout: 0,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.out_one();
    assert_eq!(hand.node.nic.next_timeout(), None);
}

/// Timeouts in a row back off, up to four times the first; an answer ends that.
// trap: ack-timeout
#[test]
fn timeouts_back_off() {
    let mut hand = Hand::new(Setup::default());
    let base = Duration::from_nanos(4096 << 8);
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let waits: Vec<_> = (0..5).map(|_| next_attempt(&mut hand).0).collect();
    assert_eq!(waits, [base, base * 2, base * 4, base * 4, base * 4]);
    hand.ack(psn);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.out_one();
    assert_eq!(next_attempt(&mut hand).0, base);
}

/// When the retries are used up, the request fails and those behind it are flushed,
/// in order, once (9.9.2.1, 10.3.1.5).
// shows: 9.7.6.1.3-retry-count, 9.9.2-retry-exceeded, 9.9.2-error-state, 10.3.1-err-flushes
// shows: 10.3.1-err-once, 11.6.2-wr-id
// trap: flush-once
#[test]
fn retries_used_up_fail_the_request_and_flush_the_rest_in_order() {
    for retry_cnt in [0, 1, 7] {
        let mut pair = Pair::new(Setup {
            retry_cnt,
            ..Setup::default()
        });
        let mem = pair.mem(A, 64);
        pair.links[A].script(|_| Fate::Drop);
        for wr_id in 1..=3 {
            pair.post(A, wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        }
        pair.post_recv(A, 10, &[mem.sge(0, 8)]);
        pair.post_recv(A, 11, &[mem.sge(0, 8)]);
        pair.run();
        use WcStatus::{RetryExceeded, WorkRequestFlushed};
        pair.assert_sent_as(
            A,
            &[
                (1, RetryExceeded),
                (2, WorkRequestFlushed),
                (3, WorkRequestFlushed),
            ],
        );
        pair.assert_received_as(A, &[(10, WorkRequestFlushed), (11, WorkRequestFlushed)]);
        assert_eq!(pair.state(A), QpState::Err);
        assert_eq!(pair.nodes[A].events, [], "the completion reports it");
        let first = pair.setup.psn[A];
        let tries = pair.links[A].count(|sent| sent.psn().get() == first);
        assert_eq!(tries, usize::from(retry_cnt) + 1);
    }
}

/// With any losses, progress restores all retries: the count is of attempts in a row (9.9.2.1).
// shows: 9.7.6.1.3-retries-back
#[test]
fn progress_gives_the_retries_back() {
    let mut pair = Pair::new(Setup {
        retry_cnt: 1,
        ..Setup::default()
    });
    let from = pair.mem(A, 30 * 1024);
    let to = pair.mem(B, 30 * 1024);
    // Each packet's first copy is lost.
    let mut seen = std::collections::HashSet::new();
    pair.links[A].script(move |sent| {
        if seen.insert(sent.psn().get()) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let write = SendOp::Write(to.remote(0));
    pair.post(A, 1, write, &[from.sge(0, 30 * 1024)]);
    pair.run();
    pair.assert_sent(A, &[1]);
}

/// The timer of an RNR NAK is a code, and nothing is sent before it has expired (9.7.5.2.8).
// shows: 9.7.5.2.8-rnr-wait, 9.7.5.2.8-rnr-resend
// trap: rnr-timer
#[test]
fn an_rnr_nak_is_honoured_for_its_time() {
    for code in 0..32 {
        let timer = RnrTimer::from_code(code).expect("a code");
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(8);
        hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
        hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
        let psns = hand.out_psns();
        hand.answer(psns[0], Syndrome::RnrNak(timer));
        assert!(hand.out().is_empty());
        // A request that is posted meanwhile waits, too.
        hand.post(3, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
        assert!(hand.out().is_empty());
        let (waited, again) = next_attempt(&mut hand);
        assert_eq!(waited, timer.duration());
        assert_eq!(again.len(), 3, "what followed was dropped, too");
        assert_eq!(again[..2], psns);
    }
}

/// The responder sends one RNR NAK, drops what follows silently, and accepts the request when it is
/// retransmitted (9.7.5.2.8).
// shows: 9.7.4.1-no-receive, 9.7.5.2.8-rnr-nak, 9.7.5.2.8-rnr-once, 9.9.3-retryable-stays
#[test]
fn a_responder_without_receives_says_so_once() {
    let mut hand = Hand::new(Setup {
        rnr_timer: 14,
        ..Setup::default()
    });
    let mem = hand.mem(16);
    let first = hand.psn;
    for n in 1..=3 {
        hand.request(Opcode::RC_SEND_ONLY, Default::default(), &[n; 4]);
    }
    let nak = hand.out_one();
    let timer = RnrTimer::from_code(14).expect("a code");
    assert_eq!(nak.syndrome(), Some(Syndrome::RnrNak(timer)));
    assert_eq!(nak.psn(), first);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.out();
    hand.psn = first;
    hand.request(Opcode::RC_SEND_ONLY, Default::default(), &[1; 4]);
    assert_eq!(hand.node.received().len(), 1);
    assert_eq!(hand.out_one().psn(), first);
    // The next one finds none again.
    hand.request(Opcode::RC_SEND_ONLY, Default::default(), &[2; 4]);
    assert_eq!(hand.out_one().syndrome(), Some(Syndrome::RnrNak(timer)));
}

/// `rnr_retry` retries, then "RNR retry exceeded" (9.9.2.1).
// shows: 9.7.5.2.8-rnr-retries, 9.9.2-rnr-exceeded
#[test]
fn rnr_retries_used_up_fail_the_request() {
    for rnr_retry in [0, 1, 6] {
        let mut pair = Pair::new(Setup {
            rnr_retry,
            ..Setup::default()
        });
        let mem = pair.mem(A, 8);
        pair.post(A, 1, SendOp::Send, &[mem.sge(0, 8)]);
        pair.post(A, 2, SendOp::Send, &[mem.sge(0, 8)]);
        pair.run();
        use WcStatus::{RnrRetryExceeded, WorkRequestFlushed};
        pair.assert_sent_as(A, &[(1, RnrRetryExceeded), (2, WorkRequestFlushed)]);
        let naks = pair.nodes[B].nic.counters().stat(Stat::RnrNaksSent);
        assert_eq!(naks, u64::from(rnr_retry) + 1);
        assert_eq!(pair.state(B), QpState::Rts, "the receiver still works");
    }
}

/// Each request has its own RNR retries: progress restores them.
// shows: 9.7.5.2.8-rnr-retries-back
#[test]
fn progress_gives_the_rnr_retries_back() {
    let mut hand = Hand::new(Setup {
        rnr_retry: 1,
        ..Setup::default()
    });
    for wr_id in 0..3 {
        hand.post(wr_id, SendOp::Send, &[]);
        let psn = hand.out_one().psn();
        hand.answer(psn, Syndrome::RnrNak(RnrTimer::SHORTEST));
        assert_eq!(next_attempt(&mut hand).1, [psn]);
        hand.ack(psn);
        assert_eq!(hand.node.sent()[0].status, WcStatus::Success);
    }
}

/// `rnr_retry` 7 retries without limit (9.7.5.2.8), even if some of the RNR NAKs are lost.
// shows: 9.7.5.2.8-rnr-for-ever
// trap: rnr-timer
#[test]
fn seven_rnr_retries_are_for_ever() {
    let mut pair = Pair::new(Setup {
        rnr_retry: 7,
        retry_cnt: 1,
        ..Setup::default()
    });
    let from = pair.mem(A, 8);
    let to = pair.mem(B, 8);
    let mut naks = 0;
    pair.links[B].script(move |_| {
        naks += 1;
        if naks % 3 == 0 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    pair.post(A, 1, SendOp::Send, &[from.sge(0, 8)]);
    pair.run_until(|pair| pair.nodes[B].nic.counters().stat(Stat::RnrNaksSent) == 100);
    assert!(pair.nodes[A].send_cq.is_empty());
    pair.post_recv(B, 7, &[to.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    pair.assert_received(B, &[7]);
}

/// A copy of an RNR NAK, made by the network, does not count as another one.
// shows: 9.7.5.2.8-rnr-copy
#[test]
fn a_copied_rnr_nak_counts_once() {
    let mut hand = Hand::new(Setup {
        rnr_retry: 1,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let timer = RnrTimer::from_code(20).expect("a code");
    hand.answer(psn, Syndrome::RnrNak(timer));
    hand.answer(psn, Syndrome::RnrNak(timer));
    assert_eq!(hand.state(), QpState::Rts);
    assert_eq!(next_attempt(&mut hand), (timer.duration(), vec![psn]));
    hand.answer(psn, Syndrome::RnrNak(timer));
    assert_eq!(hand.node.sent()[0].status, WcStatus::RnrRetryExceeded);
}

/// An RNR NAK acknowledges everything before it (9.7.5.1.2).
// shows: 9.7.6.1-nak-acks
#[test]
fn an_rnr_nak_acknowledges_what_precedes_it() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let psns = hand.out_psns();
    hand.answer(psns[1], Syndrome::RnrNak(RnrTimer::SHORTEST));
    assert_eq!(hand.node.sent().len(), 1);
    assert_eq!(next_attempt(&mut hand).1, [psns[1]]);
}

/// A sequence NAK costs a retry unless there was progress (9.9.2.1).
// shows: 9.7.6.1.3-retry-count
#[test]
fn sequence_naks_without_progress_use_up_the_retries() {
    let mut hand = Hand::new(Setup {
        retry_cnt: 2,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    for _ in 0..2 {
        hand.nak(psn, NakCode::PsnSequenceError);
        assert_eq!(hand.out_psns(), [psn]);
    }
    hand.nak(psn, NakCode::PsnSequenceError);
    assert_eq!(hand.node.sent()[0].status, WcStatus::RetryExceeded);
}

/// A packet that a port can never send counts as sent and lost: the request fails when the retries
/// are used up, and nothing hangs.
#[test]
fn what_cannot_be_sent_ends_in_retry_exceeded() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 8);
    pair.nodes[A].port.unsendable = true;
    pair.post(A, 1, SendOp::Send, &[mem.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(1, WcStatus::RetryExceeded)]);
    assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Unsendable), 8);
}

/// A full port delays packets but loses none: no timeout, no retry.
#[test]
fn a_full_port_is_tried_again() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(10 * 1024);
    hand.node.port.max_queued = 3;
    hand.post(1, SendOp::Send, &[mem.sge(0, 10 * 1024)]);
    let mut psns = Vec::new();
    for _ in 0..4 {
        let some = hand.out_psns();
        assert!(some.len() <= 3);
        psns.extend(some);
    }
    let first = hand.setup.psn[0];
    assert_eq!(psns, (first..first + 10).collect::<Vec<_>>());
    assert_eq!(hand.stat(Stat::Retransmitted), 0);
}

/// The deadline may be queried at any time. Once it has been handled, the next one is never in the
/// past.
#[test]
fn a_served_timeout_lies_in_the_future() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.out();
    // Long overdue, as after a suspended laptop.
    hand.now = Instant::from_nanos(1 << 50);
    hand.timeout();
    assert_eq!(hand.stat(Stat::Timeouts), 1);
    assert!(hand.node.nic.next_timeout() > Some(hand.now));
}

/// Packets that the peer acknowledges while they wait for retransmission have arrived: only the
/// rest is retransmitted, and the next request has the next PSN.
// shows: 10.8.6-own-memory-back
#[test]
fn what_is_acknowledged_before_it_is_sent_again_stays_sent() {
    for arrived in 1..=3 {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(3000);
        hand.post(1, SendOp::Send, &[mem.sge(0, 3000)]);
        let mut sent = hand.out_psns();
        assert_eq!(sent.len(), 3);
        let timer = RnrTimer::from_code(1).expect("a code");
        hand.answer(sent[0], Syndrome::RnrNak(timer));
        hand.ack(sent[arrived - 1]);
        hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
        sent.push(sent[2] + 1);
        let mut again = hand.out_psns();
        while again.is_empty() {
            hand.timeout();
            again = hand.out_psns();
        }
        assert_eq!(again, sent[arrived..]);
        hand.ack(sent[3]);
        let done: Vec<u64> = hand.node.sent().iter().map(|c| c.wr_id).collect();
        assert_eq!(done, [1, 2]);
    }
}
