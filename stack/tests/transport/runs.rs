//! Retransmission of missing packets: the length of runs, what ends them, and what a
//! requester concludes about its peer.

use crate::sim::{Hand, Mem, Setup};
use roce_stack::{Duration, SendOp, Stat, WcStatus};
use roce_wire::{Credits, NakCode, RnrTimer, Syndrome};

const MTU: usize = 1024;

/// A requester that knows the round trip.
fn acquainted() -> (Hand, Mem) {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(600 * MTU);
    for _ in 0..20 {
        write(&mut hand, &mem, 1);
        let psn = hand.out_one().psn();
        hand.now = hand.now + Duration::from_micros(10);
        hand.ack(psn);
    }
    hand.node.sent();
    (hand, mem)
}

fn write(hand: &mut Hand, mem: &Mem, packets: usize) {
    let op = SendOp::Write(mem.remote(0));
    hand.post(1, op, &[mem.sge(0, packets * MTU)]);
}

/// Waits long enough for an answer to arrive.
fn pause(hand: &mut Hand) {
    hand.now = hand.now + Duration::from_micros(20);
}

fn nak(hand: &mut Hand, psn: u32) {
    pause(hand);
    hand.nak(psn, NakCode::PsnSequenceError);
}

/// Waits until an answer is late.
fn late(hand: &mut Hand) {
    let before = hand.stat(Stat::LateAnswers);
    while hand.stat(Stat::LateAnswers) == before {
        hand.timeout();
        assert_eq!(hand.stat(Stat::Timeouts), 0);
    }
}

/// A requester that knows that its peer keeps out-of-order packets.
fn with_holder() -> (Hand, Mem) {
    let (mut hand, mem) = acquainted();
    write(&mut hand, &mem, 5);
    let psns = hand.out_psns();
    nak(&mut hand, psns[1]);
    assert_eq!(hand.out_psns(), [psns[1]], "nothing else while it learns");
    pause(&mut hand);
    hand.ack(psns[4]);
    (hand, mem)
}

/// While a gap turns out to be longer than the run, the next run is twice as long, up to 64
/// packets; its first packet is sent twice.
#[test]
fn runs_double_up_to_64_packets() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 250);
    let mut missing = hand.out_psns()[10];
    for length in [1, 2, 4, 8, 16, 32, 64, 64] {
        nak(&mut hand, missing);
        let mut expected: Vec<u32> = (missing..missing + length).collect();
        expected.insert(0, missing);
        assert_eq!(hand.out_psns(), expected);
        missing += length;
    }
}

/// A NAK for a packet that was just retransmitted is ignored. A NAK for the first packet of the run
/// counts if it arrives late enough, and so does one for a packet behind the run.
#[test]
fn what_is_on_its_way_again_is_not_repeated() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 20);
    let psn = hand.out_psns()[0];
    nak(&mut hand, psn);
    hand.out();
    nak(&mut hand, psn + 1);
    assert_eq!(hand.out_psns(), [psn + 1, psn + 1, psn + 2]);
    nak(&mut hand, psn + 2);
    assert!(hand.out().is_empty(), "it is on its way");
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 20);
    let psn = hand.out_psns()[0];
    for _ in 0..2 {
        nak(&mut hand, psn);
        assert_eq!(hand.out_psns(), [psn, psn]);
    }
}

/// An acknowledgement of a part of a run says nothing about the peer.
#[test]
fn a_part_of_a_run_is_no_strike() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 20);
    let psn = hand.out_psns()[0];
    nak(&mut hand, psn);
    hand.out();
    nak(&mut hand, psn + 1);
    hand.out();
    pause(&mut hand);
    hand.ack(psn + 1);
    assert!(hand.out().is_empty());
}

/// The rest of a run is sent after its first packet is acknowledged.
#[test]
fn a_run_goes_on_after_its_first_packet_is_acknowledged() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 20);
    let psn = hand.out_psns()[0];
    nak(&mut hand, psn);
    hand.out();
    nak(&mut hand, psn + 1);
    hand.node.port.max_queued = 2;
    assert_eq!(hand.out_psns(), [psn + 1, psn + 1]);
    hand.node.port.max_queued = usize::MAX;
    pause(&mut hand);
    hand.ack(psn + 1);
    assert_eq!(hand.out_psns(), [psn + 2]);
}

/// A peer that kept out-of-order packets discards them three times in a row: then it counts as one
/// that discards them.
#[test]
fn a_holder_may_drop_packets_twice_in_a_row() {
    let (mut hand, mem) = with_holder();
    for strike in 0..4 {
        write(&mut hand, &mem, 5);
        let psns = hand.out_psns();
        nak(&mut hand, psns[0]);
        let again = hand.out_psns();
        if strike == 3 {
            // Everything, and the first packet twice.
            assert_eq!(again, [&psns[..1], &psns[..]].concat());
            continue;
        }
        assert_eq!(again, [psns[0], psns[0]]);
        pause(&mut hand);
        hand.ack(psns[0]);
        assert_eq!(hand.out_psns(), psns[1..], "it has dropped the rest");
        pause(&mut hand);
        hand.ack(psns[4]);
    }
}

/// The response to a retransmission for a late response does not show what the peer does with
/// out-of-order packets.
#[test]
fn a_late_answer_teaches_nothing() {
    let (mut hand, mem) = acquainted();
    write(&mut hand, &mem, 3);
    let psns = hand.out_psns();
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psns[0], psns[2]]);
    hand.ack(psns[2]);
    write(&mut hand, &mem, 5);
    let psns = hand.out_psns();
    nak(&mut hand, psns[1]);
    assert_eq!(hand.out_psns(), [psns[1]], "once, as of an unknown peer");
}

/// For a late response, a packet that is both the oldest and the newest is retransmitted once, not
/// twice.
#[test]
fn a_packet_alone_asks_once() {
    let (mut hand, mem) = acquainted();
    write(&mut hand, &mem, 1);
    let psn = hand.out_one().psn();
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psn]);
}

/// A packet that probes for a receive stays alone when it is retransmitted.
// shows: 9.7.7.2.5-probe
#[test]
fn a_repeated_probe_is_still_one() {
    let (mut hand, mem) = acquainted();
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.answer(psn, Syndrome::Ack(Credits::from_count(0)));
    hand.post(2, SendOp::Send, &[mem.sge(0, 4 * MTU)]);
    assert_eq!(hand.out_psns(), [psn + 1]);
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psn + 1]);
}

/// A receiver that was not ready becomes ready when it announces a receive, not when it reports
/// none.
// shows: 9.7.7.2-no-deadlock
#[test]
fn no_credit_is_no_readiness() {
    let (mut hand, mem) = acquainted();
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let psns = hand.out_psns();
    hand.ack(psns[0]);
    let timer = RnrTimer::from_code(20).expect("10.24 ms");
    hand.answer(psns[1], Syndrome::RnrNak(timer));
    hand.answer(psns[0], Syndrome::Ack(Credits::from_count(0)));
    assert!(hand.out().is_empty());
    hand.answer(psns[0], Syndrome::Ack(Credits::from_count(1)));
    assert_eq!(hand.out_psns(), psns[1..]);
}

/// If everything was being retransmitted already, the requester continues from the missing packet.
#[test]
fn going_back_goes_on_from_what_is_missing() {
    let (mut hand, mem) = acquainted();
    write(&mut hand, &mem, 6);
    let psns = hand.out_psns();
    while hand.stat(Stat::Timeouts) == 0 {
        hand.timeout();
        if hand.stat(Stat::Timeouts) == 0 {
            hand.out();
        }
    }
    hand.node.port.max_queued = 2;
    assert_eq!(hand.out_psns(), psns[..2]);
    hand.node.port.max_queued = usize::MAX;
    nak(&mut hand, psns[2]);
    assert_eq!(hand.out_psns(), psns[2..]);
}

/// A single missing packet says nothing about the peer, so nothing waits for the answer.
#[test]
fn a_packet_alone_is_repeated_with_what_follows() {
    let (mut hand, mem) = acquainted();
    write(&mut hand, &mem, 1);
    let psn = hand.out_one().psn();
    nak(&mut hand, psn);
    write(&mut hand, &mem, 600);
    let out = hand.out_psns();
    assert_eq!(out[..2], [psn, psn + 1]);
    // A loss: three quarters of the window.
    assert_eq!(out.len(), 192);
}

/// One loss to a peer that may keep out-of-order packets does not reduce the window.
#[test]
fn one_missing_packet_leaves_the_window_open() {
    for known in [false, true] {
        let (mut hand, mem) = if known { with_holder() } else { acquainted() };
        write(&mut hand, &mem, 600);
        let psns = hand.out_psns();
        assert_eq!(psns.len(), 256);
        nak(&mut hand, psns[10]);
        hand.out();
        pause(&mut hand);
        hand.ack(psns[255]);
        assert_eq!(hand.out_psns().last(), Some(&(psns[255] + 256)));
    }
}

/// The first question is the newest packet. It is the oldest if that is known to be missing, if the
/// newest can't ask, or if there was no answer.
#[test]
fn a_holder_is_asked_by_the_newest_packet_at_first() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 5);
    let psns = hand.out_psns();
    late(&mut hand);
    assert_eq!(hand.out_psns(), psns[4..]);
    late(&mut hand);
    assert_eq!(hand.out_psns(), psns[..1]);

    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 5);
    let psns = hand.out_psns();
    nak(&mut hand, psns[1]);
    hand.out();
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psns[1]]);

    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 1);
    hand.post(2, SendOp::Read(mem.remote(0)), &[mem.sge(0, MTU)]);
    let psns = hand.out_psns();
    late(&mut hand);
    assert_eq!(hand.out_psns(), psns[..1]);
}

/// If the retransmission for a late response covered everything outstanding, no loss is suspected.
#[test]
fn a_packet_alone_that_is_late_leaves_no_suspicion() {
    let (mut hand, mem) = with_holder();
    write(&mut hand, &mem, 1);
    let psn = hand.out_one().psn();
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psn]);
    hand.ack(psn);
    write(&mut hand, &mem, 2);
    hand.out();
    late(&mut hand);
    assert_eq!(hand.out_psns(), [psn + 2]);
}

/// While the receiver is not ready, no answer is late.
#[test]
fn nobody_asks_a_receiver_that_is_not_ready() {
    for nak in [false, true] {
        let (mut hand, mem) = acquainted();
        hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
        let psn = hand.out_one().psn();
        let timer = RnrTimer::from_code(20).expect("10.24 ms");
        hand.answer(psn, Syndrome::RnrNak(timer));
        if nak {
            // It was sent before, and arrives late.
            hand.nak(psn, NakCode::PsnSequenceError);
        }
        let mut again = hand.out_psns();
        while again.is_empty() {
            hand.timeout();
            assert_eq!(hand.stat(Stat::LateAnswers), 0);
            again = hand.out_psns();
        }
        assert_eq!(again, [psn]);
    }
}

/// Memory that is gone when its packet would be retransmitted: for the oldest request, that is an
/// error; a later one may have arrived, which its acknowledgement shows.
// shows: 9.9.2-local-protection
#[test]
fn memory_that_is_gone_matters_for_the_oldest_request_only() {
    for oldest in [true, false] {
        let (mut hand, _) = acquainted();
        let (first, second) = (hand.mem(8), hand.mem(8));
        hand.post(1, SendOp::Send, &[first.sge(0, 8)]);
        hand.post(2, SendOp::Send, &[second.sge(0, 8)]);
        let psns = hand.out_psns();
        let gone = if oldest { first.key } else { second.key };
        assert!(hand.node.nic.deregister(gone));
        // The oldest packet and the newest should be retransmitted for the late response.
        late(&mut hand);
        let again = hand.out_psns();
        if !oldest {
            assert_eq!(again, psns[..1]);
            hand.ack(psns[1]);
        }
        let done = hand.node.sent();
        let outcomes: Vec<_> = done.iter().map(|c| (c.wr_id, c.status)).collect();
        let expected = if oldest {
            [
                (1, WcStatus::LocalProtectionError),
                (2, WcStatus::WorkRequestFlushed),
            ]
        } else {
            [(1, WcStatus::Success), (2, WcStatus::Success)]
        };
        assert_eq!(outcomes, expected);
    }
}
