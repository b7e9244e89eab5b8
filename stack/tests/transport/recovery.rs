//! Loss: which packets are retransmitted, and when a loss is detected (IBTA 1.7, 9.7.5.2.8 and
//! 9.7.6.1.3). A responder keeps out-of-order requests. A requester finds out whether its peer
//! does, and then retransmits only what is missing.

use crate::sim::{A, B, Fate, Hand, Pair, Sent, Setup, pattern, to_state};
use roce_stack::{DropReason, Duration, QpState, SendOp, Stat};
use roce_wire::{ExtHeaders, NakCode, Opcode, Psn, Syndrome};
use std::collections::HashMap;

const MTU: usize = 1024;

/// A WRITE of `packets` packets from A to B, where the first transmission of those in `lost` is
/// lost. Returns the number of transmissions of each packet.
fn write_with_losses(pair: &mut Pair, packets: usize, lost: &[u32]) -> Vec<usize> {
    let len = packets * MTU;
    let from = pair.mem(A, len);
    let to = pair.mem(B, len);
    from.write(0, &pattern(7, len));
    let first = pair.links[A]
        .log
        .iter()
        .map(|sent| sent.psn().next().get())
        .max()
        .unwrap_or(pair.setup.psn[A]);
    pair.links[A].log.clear();
    let mut seen = HashMap::new();
    let lost = lost.to_vec();
    pair.links[A].script(move |sent| {
        let index = sent.psn().diff(Psn::new(first));
        let count = seen.entry(index).or_insert(0);
        *count += 1;
        if *count == 1 && lost.iter().any(|n| i64::from(*n) == i64::from(index)) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert!(to.read(0, len) == pattern(7, len));
    let mut times = vec![0; packets];
    for sent in &pair.links[A].log {
        times[sent.psn().diff(Psn::new(first)) as usize] += 1;
    }
    times
}

/// Between two QPs of this stack, a loss costs only the lost packet: once for the first loss, while
/// the peer is still unknown, and with a second copy for further losses, in case the first copy is
/// lost.
#[test]
fn only_what_is_missing_is_sent_again() {
    let mut pair = Pair::new(Setup::default());
    let times = write_with_losses(&mut pair, 100, &[10, 40, 60]);
    let expected: Vec<usize> = (0..100)
        .map(|n| match n {
            10 => 2,
            40 | 60 => 3,
            _ => 1,
        })
        .collect();
    assert_eq!(times, expected);
    let counters = pair.nodes[B].nic.counters();
    assert!(counters.stat(Stat::OutOfOrderKept) > 0);
    assert_eq!(counters.drops(DropReason::OutOfSequence), 0);
}

/// To a peer that drops out-of-order packets, everything from the lost packet on is retransmitted:
/// after the first loss when that is known, from then on at once.
#[test]
fn a_peer_that_keeps_nothing_gets_everything_again() {
    let mut pair = Pair::new(Setup {
        window_bytes: 16 * MTU,
        ..Setup::default()
    });
    pair.nodes[B].nic.set_reorder_limit(0);
    let times = write_with_losses(&mut pair, 12, &[3]);
    assert_eq!(times, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    let naks = pair.links[B].count(is_sequence_nak);
    assert_eq!(naks, 1);
    // The peer is known by now: there is no pause after the missing packet, and it is sent twice,
    // since the peer would not report a second loss.
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8 * MTU);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8 * MTU)]);
    let psns = hand.out_psns();
    hand.nak(psns[2], NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), [psns[2]]);
    hand.ack(psns[2]);
    assert_eq!(hand.out_psns(), psns[3..]);
    hand.nak(psns[5], NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), [&psns[5..6], &psns[5..]].concat());
}

/// An out-of-order request changes neither memory nor completions until its turn; then all kept
/// requests are executed, in order.
// shows: 9.5-executed-in-order, 9.7.4.1.1-early
#[test]
fn what_came_early_is_executed_in_order_and_not_before() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post_recv(1, &[mem.sge(32, 8)]);
    hand.post_recv(2, &[mem.sge(40, 8)]);
    let first = hand.psn;
    let deliver = |hand: &mut Hand, n: u32| {
        let opcode = match n {
            0 | 1 => Opcode::RC_WRITE_ONLY,
            3 => Opcode::RC_FETCH_ADD,
            _ => Opcode::RC_SEND_ONLY,
        };
        let ext = match n {
            0 | 1 => mem.reth(8, 8),
            3 => mem.atomic(0, 5),
            _ => ExtHeaders::NONE,
        };
        let payload = if n == 3 { vec![] } else { vec![n as u8 + 1; 8] };
        let bth = hand.bth(opcode, first + n);
        hand.deliver(bth, ext, &payload);
    };
    for n in [4, 1, 3, 2, 3] {
        deliver(&mut hand, n);
    }
    let nak = hand.out_one();
    assert_eq!(nak.psn(), first);
    assert_eq!(hand.drops(DropReason::DuplicateOutOfOrder), 1);
    assert_eq!(mem.read(0, 64), [0; 64]);
    assert!(hand.node.received().is_empty());
    deliver(&mut hand, 0);
    assert_eq!(mem.read(8, 8), [2; 8], "the second WRITE came second");
    assert_eq!(mem.word(0), 5, "the atomic was executed once");
    let received: Vec<u64> = hand.node.received().iter().map(|c| c.wr_id).collect();
    assert_eq!(received, [1, 2]);
    assert_eq!((mem.read(32, 8), mem.read(40, 8)), (vec![3; 8], vec![5; 8]));
    let out = hand.out_psns();
    assert_eq!(
        out,
        [first + 3, first + 4],
        "the atomic's answer, and one for all"
    );
}

/// The NAK for the next gap is sent as soon as the previous gap is closed.
#[test]
fn each_gap_is_told_of_in_turn() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let first = hand.psn;
    for n in [1, 3, 0, 2] {
        hand.psn = first + n;
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(8, 8), &[1; 8]);
        let answer = hand.out();
        match n {
            1 => assert_eq!(answer[0].psn(), first),
            3 => assert!(answer.is_empty()),
            0 => assert_eq!(answer[0].psn(), first + 2),
            _ => assert_eq!(answer[0].psn(), first + 3),
        }
    }
    assert_eq!(hand.stat(Stat::SequenceNaksSent), 2);
}

/// When the pool is full, packets are dropped, and the peer retransmits them.
#[test]
fn a_full_pool_drops_and_nothing_is_lost() {
    let mut pair = Pair::new(Setup::default());
    pair.nodes[B].nic.set_reorder_limit(4);
    write_with_losses(&mut pair, 60, &[5, 6, 30]);
    let counters = pair.nodes[B].nic.counters();
    assert!(counters.stat(Stat::OutOfOrderKept) > 0);
    assert!(counters.drops(DropReason::OutOfSequence) > 0);
}

/// The buffers of a QP return to the pool when it is destroyed or reset.
#[test]
fn the_pool_gets_back_what_a_qp_kept() {
    for _ in 0..3 {
        let mut hand = Hand::new(Setup::default());
        hand.node.nic.set_reorder_limit(1);
        let mem = hand.mem(8);
        for round in 1..=3 {
            hand.psn = hand.setup.psn[1] + 1;
            hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
            hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
            assert_eq!(hand.stat(Stat::OutOfOrderKept), round);
            let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
            let reset = to_state(QpState::Reset);
            nic.modify_qp(hand.now, qpn, &reset).expect("legal");
            hand.advance_to(QpState::Rts);
        }
    }
}

/// After an RNR NAK, everything is retransmitted, so nothing is kept.
// shows: 9.7.4.1.1-early
#[test]
fn nothing_is_kept_behind_a_request_that_found_no_receive() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let first = hand.psn;
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    assert_eq!(hand.drops(DropReason::OutOfSequence), 1);
    // The same if it was kept before, once the request without a receive has arrived in order.
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    for n in [2, 1, 0] {
        hand.psn = first + n;
        hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    }
    assert_eq!(hand.node.received().len(), 1);
    let nak = hand.out_one();
    assert_eq!(
        nak.syndrome(),
        Some(Syndrome::Nak(NakCode::PsnSequenceError))
    );
    assert_eq!(hand.drops(DropReason::OutOfSequence), 2);
    for n in [2, 1] {
        hand.psn = first + n;
        hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
        hand.out();
    }
    let nak = hand.stat(Stat::RnrNaksSent);
    assert_eq!(nak, 1);
    assert_eq!(hand.drops(DropReason::OutOfSequence), 3);
}

/// How a peer handles out-of-order packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    All,
    Nothing,
}

/// A connection with a known round trip of 10 us, and known behaviour of the peer for out-of-order
/// packets.
fn acquainted(keeps: Keeps) -> Pair {
    let mut pair = Pair::new(Setup::default());
    if keeps == Keeps::Nothing {
        pair.nodes[B].nic.set_reorder_limit(0);
    }
    let from = pair.mem(A, 8);
    let to = pair.mem(B, 8);
    pair.links[A].latency = Duration::from_micros(5);
    pair.links[B].latency = Duration::from_micros(5);
    write_with_losses(&mut pair, 20, &[3]);
    for n in 0..20 {
        pair.post(A, n, SendOp::Write(to.remote(0)), &[from.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[n]);
    }
    pair
}

/// Applies `fate` to one packet from `side` of an acquainted pair: it is detected within a few
/// round trips, without a timeout.
fn found_out_soon(
    keeps: Keeps,
    side: usize,
    fate: Fate,
    pred: impl Fn(Opcode) -> bool + 'static,
) -> Pair {
    let mut pair = acquainted(keeps);
    let from = pair.mem(A, 40 * MTU);
    let to = pair.mem(B, 40 * MTU);
    pair.links[side].hit(&[0], fate, move |sent| pred(sent.opcode()));
    let started = pair.now;
    pair.post(A, 99, SendOp::Write(to.remote(0)), &[from.sge(0, 10 * MTU)]);
    pair.run_until(|pair| !pair.nodes[A].send_cq.is_empty());
    pair.assert_sent(A, &[99]);
    let took = pair.now.saturating_duration_since(started);
    assert!(took < Duration::from_micros(60), "{keeps:?} {took:?}");
    assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
    pair
}

#[test]
fn the_loss_of_a_last_packet_is_found_out_soon() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let last = |opcode| opcode == Opcode::RC_WRITE_LAST;
        let pair = found_out_soon(keeps, A, Fate::Drop, last);
        assert_eq!(pair.nodes[A].nic.counters().stat(Stat::LateAnswers), 1);
    }
}

#[test]
fn the_loss_of_an_acknowledgement_is_found_out_soon() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let ack = |opcode| opcode == Opcode::RC_ACKNOWLEDGE;
        found_out_soon(keeps, B, Fate::Drop, ack);
    }
}

/// If a response is slow, the requester retransmits only the packets that request it: other packets
/// that have arrived are not retransmitted.
#[test]
fn a_slow_answer_costs_no_more_than_the_question() {
    let slow = Fate::Delay(Duration::from_micros(25));
    for (keeps, question) in [(Keeps::All, 1), (Keeps::Nothing, 2)] {
        let before = acquainted(keeps).nodes[A]
            .nic
            .counters()
            .stat(Stat::Retransmitted);
        let pair = found_out_soon(keeps, B, slow, |opcode| opcode == Opcode::RC_ACKNOWLEDGE);
        let after = pair.nodes[A].nic.counters().stat(Stat::Retransmitted);
        assert_eq!(after - before, question, "{keeps:?}");
    }
}

/// Every half a millisecond, the peer is interrupted for 27 us, as by a thread that checks something,
/// and then answers everything at once. Posts `count` WRITEs, one after the other. Returns the
/// number of responses that counted as late.
fn late_answers_of_an_interrupted_peer(pair: &mut Pair, count: u64) -> u64 {
    let (from, to) = (pair.mem(A, 8), pair.mem(B, 8));
    pair.links[A].script(|sent| {
        let since = Duration::from_nanos(sent.at.as_nanos() % 500_000);
        match Duration::from_micros(27).checked_sub(since) {
            Some(rest) => Fate::Delay(rest),
            None => Fate::Pass,
        }
    });
    let late = |pair: &Pair| pair.nodes[A].nic.counters().stat(Stat::LateAnswers);
    let before = late(pair);
    for n in 0..count {
        pair.post(A, n, SendOp::Write(to.remote(0)), &[from.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[n]);
    }
    late(pair) - before
}

/// A peer that is interrupted again and again is waited for, although its responses come just when
/// those to the retransmissions would: nothing is lost.
#[test]
fn a_peer_that_is_often_interrupted_is_waited_for() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let mut pair = acquainted(keeps);
        // About 500 interruptions, of which most hit a packet.
        let late = late_answers_of_an_interrupted_peer(&mut pair, 25_000);
        assert!(late < 20, "{keeps:?}: {late} retransmissions for nothing");
        assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
    }
}

/// The delay that hosts add is learned once for all QPs of a NIC.
#[test]
fn a_new_connection_knows_how_long_to_wait() {
    let mut pair = acquainted(Keeps::All);
    let first = late_answers_of_an_interrupted_peer(&mut pair, 5000);
    assert!(first > 1, "{first} responses were late");
    let mut again = 0;
    for _ in 0..20 {
        for side in [A, B] {
            pair.modify(side, &to_state(QpState::Reset));
        }
        for side in [A, B] {
            pair.connect(side);
        }
        again += late_answers_of_an_interrupted_peer(&mut pair, 500);
    }
    assert!(again <= 2, "{first}, then {again} again");
}

/// If the whole tail of a message is lost, the retransmission for the late response detects it, and
/// everything is retransmitted without a timeout.
#[test]
fn the_loss_of_a_whole_tail_is_found_out_without_a_timeout() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let mut pair = acquainted(keeps);
        write_with_losses(&mut pair, 20, &[16, 17, 18, 19]);
        let counters = pair.nodes[A].nic.counters();
        assert_eq!(counters.stat(Stat::Timeouts), 0, "{keeps:?}");
        assert!(counters.stat(Stat::LateAnswers) > 0);
    }
}

/// The only NAK may be lost: the missing packet is among those that ask.
#[test]
fn the_loss_of_a_nak_is_found_out_without_a_timeout() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let mut pair = acquainted(keeps);
        pair.links[B].hit(&[0], Fate::Drop, is_sequence_nak);
        write_with_losses(&mut pair, 20, &[7]);
        assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
    }
}

fn is_sequence_nak(sent: &Sent) -> bool {
    let syndrome = sent.ext.aeth.map(|aeth| aeth.syndrome);
    syndrome == Some(Syndrome::Nak(NakCode::PsnSequenceError))
}

/// A peer sends one NAK for a gap. The retransmission may be lost as well, with its copy, and the
/// loss is detected without a timeout.
#[test]
fn the_loss_of_what_is_sent_again_is_found_out_without_a_timeout() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        let mut pair = acquainted(keeps);
        let len = 20 * MTU;
        let (from, to) = (pair.mem(A, len), pair.mem(B, len));
        from.write(0, &pattern(9, len));
        pair.links[A].log.clear();
        let mut seen = HashMap::new();
        pair.links[A].script(move |sent| {
            let all = seen.len();
            let (index, times) = seen.entry(sent.psn()).or_insert((all, 0));
            *times += 1;
            if *index == 7 && *times <= 3 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1]);
        assert!(to.read(0, len) == pattern(9, len));
        assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
    }
}

/// The requester also asks a peer whose behaviour is unknown, and the loss of its answer costs no
/// timeout.
#[test]
fn a_peer_that_has_lost_nothing_so_far_is_asked_too() {
    for keeps in [Keeps::All, Keeps::Nothing] {
        for lost in [&[4][..], &[3, 4]] {
            let mut pair = Pair::new(Setup::default());
            if keeps == Keeps::Nothing {
                pair.nodes[B].nic.set_reorder_limit(0);
            }
            write_with_losses(&mut pair, 5, &[]);
            write_with_losses(&mut pair, 5, lost);
            let counters = pair.nodes[A].nic.counters();
            assert_eq!(counters.stat(Stat::Timeouts), 0, "{keeps:?} {lost:?}");
            assert_eq!(counters.stat(Stat::LateAnswers), 1, "{keeps:?} {lost:?}");
        }
    }
}

/// A retransmission for a late response uses up no retry: retries belong to the local ACK timeout.
#[test]
fn asking_is_no_retry() {
    let mut pair = Pair::new(Setup {
        retry_cnt: 2,
        ..Setup::default()
    });
    write_with_losses(&mut pair, 20, &[3]);
    let mem = pair.mem(A, 8);
    pair.links[A].script(|_| Fate::Drop);
    pair.post(A, 9, SendOp::Send, &[mem.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(9, roce_stack::WcStatus::RetryExceeded)]);
    let counters = pair.nodes[A].nic.counters();
    assert_eq!(counters.stat(Stat::Timeouts), 3);
    assert!(counters.stat(Stat::LateAnswers) > 3);
}

/// A spurious timeout is recognised by an acknowledgement of more than what was retransmitted.
#[test]
fn a_timeout_for_nothing_is_recognised() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8 * MTU);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8 * MTU)]);
    let psns = hand.out_psns();
    hand.timeout();
    hand.node.port.max_queued = 1;
    assert_eq!(hand.out_psns(), [psns[0]]);
    hand.ack(psns[7]);
    assert_eq!(hand.node.sent().len(), 1);
    assert_eq!(hand.stat(Stat::SpuriousTimeouts), 1);
}

/// A burst that is lost completely takes a round trip for each doubling of the run, not one for
/// each packet.
#[test]
fn a_long_gap_is_closed_in_few_round_trips() {
    let mut pair = Pair::new(Setup {
        window_bytes: 1 << 20,
        ..Setup::default()
    });
    write_with_losses(&mut pair, 40, &[10]);
    const LOST: [u32; 40] = {
        let mut lost = [0; 40];
        let mut n = 0;
        while n < 40 {
            lost[n] = 10 + n as u32;
            n += 1;
        }
        lost
    };
    write_with_losses(&mut pair, 100, &LOST);
    let naks = pair.nodes[A]
        .nic
        .counters()
        .stat(Stat::SequenceNaksReceived);
    assert!(naks < 20, "{naks}");
}

/// While the peer's behaviour is unknown, nothing follows the packet that it misses: otherwise the
/// answer would reveal nothing.
#[test]
fn nothing_new_is_sent_while_the_peer_is_got_to_know() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8 * MTU);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8 * MTU)]);
    let psns = hand.out_psns();
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.nak(psns[2], NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), [psns[2]]);
    hand.ack(psns[7]);
    assert_eq!(hand.out_psns(), [psns[7] + 1]);
}
