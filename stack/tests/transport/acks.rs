//! Acknowledgements: when the responder sends them, and how the requester handles them (IBTA 1.7,
//! 9.7.5).

use crate::sim::{A, B, Fate, Hand, Out, Pair, Setup, pattern};
use roce_stack::{DropReason, SendOp, Stat, WcStatus};
use roce_wire::{Aeth, AtomicAckEth, ExtHeaders, NakCode, Opcode, Operation, PathMtu, Syndrome};

fn is_ack(out: &Out) -> bool {
    matches!(out.syndrome(), Some(Syndrome::Ack(_)))
}

/// A responder may acknowledge several requests at once (9.7.5.1.2), with the last
/// one's PSN and the number of messages completed.
// shows: 9.7.4.1.1-expected, 9.7.5.1.1-ack-psn, 9.7.5.1.2-asked, 9.7.5.1.2-coalesced
// shows: 9.7.7.1-msn
#[test]
fn acknowledgements_coalesce() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for _ in 0..5 {
        let ext = mem.reth(0, 8);
        hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    }
    let ack = hand.out_one();
    assert!(is_ack(&ack));
    assert_eq!(ack.psn(), hand.setup.psn[1] + 4);
    assert_eq!(ack.ext.aeth.map(|aeth| aeth.msn), Some(5));
    assert!(hand.out().is_empty());
}

/// The responder must acknowledge a packet only if the packet asks for it (9.7.5.1.2).
// shows: 9.7.5.1.2-unasked
#[test]
fn no_acknowledgement_unasked() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    bth.ack_req = false;
    let ext = mem.reth(0, 8);
    hand.deliver(bth, ext, &[1; 8]);
    assert!(hand.out().is_empty());
    assert_eq!(mem.read(0, 8), [1; 8]);
}

/// The MSN counts completed messages, not packets (9.7.7.1).
// shows: 9.7.5.1.2-asked, 9.7.7.1-msn
#[test]
fn the_msn_counts_messages() {
    let setup = Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    };
    let mut hand = Hand::new(setup);
    let mem = hand.mem(1024);
    let first = mem.reth(0, 600);
    hand.request(Opcode::RC_WRITE_FIRST, first, &[1; 256]);
    assert_eq!(hand.out_one().ext.aeth.map(|a| a.msn), Some(0));
    hand.request(Opcode::RC_WRITE_MIDDLE, ExtHeaders::NONE, &[2; 256]);
    assert_eq!(hand.out_one().ext.aeth.map(|a| a.msn), Some(0));
    hand.request(Opcode::RC_WRITE_LAST, ExtHeaders::NONE, &[3; 88]);
    assert_eq!(hand.out_one().ext.aeth.map(|a| a.msn), Some(1));
}

/// A response to a READ or atomic acknowledges the requests before it (9.7.5.1.2), so the responder
/// sends no separate acknowledgement before it.
// shows: 9.5-read-sees-writes, 9.7.5.1.2-response-acks, 9.7.7.1-msn-fetch
#[test]
fn a_response_acknowledges_what_precedes_it() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let ext = mem.reth(0, 8);
    hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    hand.request(Opcode::RC_READ_REQUEST, ext, &[]);
    let response = hand.out_one();
    assert_eq!(response.opcode(), Opcode::RC_READ_RESPONSE_ONLY);
    assert_eq!(response.payload, [1; 8]);
    assert_eq!(response.ext.aeth.map(|aeth| aeth.msn), Some(2));
}

/// Requests that are executed after a READ are acknowledged after its response: answers are sent in
/// the order of PSNs (9.7.5.1).
// shows: 9.7.3.1-read-psns, 9.7.4.1.1-after-read, 9.7.5.1.1-response-psn, 9.7.5.1-order
#[test]
fn answers_keep_the_order_of_requests() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    let read = mem.reth(0, 3000);
    let write = mem.reth(0, 8);
    hand.request(Opcode::RC_READ_REQUEST, read, &[]);
    hand.psn += 2;
    hand.request(Opcode::RC_WRITE_ONLY, write, &[9; 8]);
    let first = hand.setup.psn[1];
    assert_eq!(hand.out_psns(), [first, first + 1, first + 2, first + 3]);
}

/// One acknowledgement completes all requests up to its PSN (9.7.5.1.2).
// shows: 9.5-completed-in-order, 9.7.3.1-psn-each, 9.7.6.1-cumulative, 9.7.6.1-old-ack
// shows: 9.7.6.1.3-timeout-restarts, 10.8.2-order, 10.8.6-after-ack, 11.4.2.1-fifo
#[test]
fn an_acknowledgement_is_cumulative() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 1..=4 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    let psns = hand.out_psns();
    assert_eq!(psns.len(), 4);
    hand.ack(psns[2]);
    let done: Vec<_> = hand.node.sent().iter().map(|c| c.wr_id).collect();
    assert_eq!(done, [1, 2, 3]);
    // A late, older acknowledgement has no effect.
    hand.ack(psns[0]);
    assert!(hand.node.sent().is_empty());
    hand.ack(psns[3]);
    assert_eq!(hand.node.sent().len(), 1);
    // Nothing is outstanding, so no timer may report a loss.
    hand.timeout();
    assert_eq!(hand.stat(Stat::Timeouts), 0);
}

/// An acknowledgement in mid-message completes nothing, but counts as progress.
// shows: 9.7.6.1-partial
#[test]
fn a_message_may_be_acknowledged_in_parts() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 3 * 1024)]);
    let psns = hand.out_psns();
    assert_eq!(psns.len(), 3);
    hand.ack(psns[1]);
    assert!(hand.node.sent().is_empty());
    // A NAK goes back only to the missing packet.
    hand.nak(psns[2], NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), [psns[2]]);
    hand.ack(psns[2]);
    assert_eq!(hand.node.sent().len(), 1);
}

/// An acknowledgement of a PSN that was never sent is ignored (9.7.5.1.4).
// shows: 9.7.5.1.4-ghost-ack, 10.8.6-after-ack
// trap: ghost-acks
#[test]
fn ghost_acks_are_ignored() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let kinds = [
        Syndrome::default(),
        Syndrome::Nak(NakCode::PsnSequenceError),
        Syndrome::Nak(NakCode::RemoteAccessError),
        Syndrome::RnrNak(roce_wire::RnrTimer::SHORTEST),
    ];
    for (n, syndrome) in kinds.into_iter().enumerate() {
        hand.answer(psn + 1, syndrome);
        hand.answer(psn + 0x7f_fff0, syndrome);
        assert_eq!(hand.drops(DropReason::GhostAck), 2 * (n as u64 + 1));
    }
    assert!(hand.node.sent().is_empty());
    assert!(hand.out().is_empty());
    hand.ack(psn);
    assert_eq!(hand.node.sent()[0].status, WcStatus::Success);
}

/// The same for responses of READs and atomics.
// shows: 9.7.5.1.4-ghost-response
// trap: ghost-acks
#[test]
fn ghost_responses_are_ignored() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let psn = hand.setup.psn[0];
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        atomic_ack: Some(AtomicAckEth { original: 1 }),
        ..ExtHeaders::NONE
    };
    for opcode in [Opcode::RC_READ_RESPONSE_ONLY, Opcode::RC_ATOMIC_ACKNOWLEDGE] {
        hand.deliver(hand.bth(opcode, psn), ext, &[]);
    }
    assert_eq!(hand.drops(DropReason::GhostAck), 2);
    assert_eq!(mem.read(0, 64), [0; 64]);
}

/// A responder sends one NAK for a gap, however many packets arrive behind it (9.7.5.2.8), and the
/// next NAK only for the next gap. Here it keeps none of those packets.
// shows: 9.7.4.1.1-gap, 9.7.5.2-sequence-nak, 9.7.5.2-sequence-nak-once
// shows: 9.9.3-retryable-stays
#[test]
fn a_sequence_nak_is_sent_once_per_gap() {
    let mut hand = Hand::new(Setup::default());
    hand.node.nic.set_reorder_limit(0);
    let mem = hand.mem(64);
    let ext = mem.reth(0, 8);
    let first = hand.psn;
    hand.psn += 1;
    for _ in 0..3 {
        hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    }
    let nak = hand.out_one();
    assert_eq!(nak.psn(), first);
    assert_eq!(
        nak.syndrome(),
        Some(Syndrome::Nak(NakCode::PsnSequenceError))
    );
    hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    assert!(hand.out().is_empty());
    assert_eq!(hand.drops(DropReason::OutOfSequence), 4);
    assert_eq!(
        mem.read(0, 8),
        [0; 8],
        "nothing behind the gap was executed"
    );
    // The missing packet arrives; then there is another gap.
    hand.psn = first;
    hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    assert!(is_ack(&hand.out_one()));
    hand.psn += 1;
    hand.request(Opcode::RC_WRITE_ONLY, ext, &[1; 8]);
    assert_eq!(hand.out_one().psn(), first + 1);
    assert_eq!(hand.stat(Stat::SequenceNaksSent), 2);
}

/// The missing packet arrives before the NAK is sent, as in a burst that the network reordered. The
/// NAK is no longer needed and must not be sent.
// shows: 9.7.5.2-sequence-nak-moot
#[test]
fn a_nak_that_has_become_moot_is_not_sent() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let first = hand.psn;
    for psn in [first + 1, first] {
        hand.psn = psn;
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    }
    let ack = hand.out_one();
    assert!(is_ack(&ack));
    assert_eq!(ack.psn(), first + 1);
}

/// A NAK acknowledges everything before it. Everything from its PSN on is retransmitted
/// (9.7.5.2.1), once it is clear that the peer has dropped it.
// shows: 9.7.3-same-again, 9.7.6.1-nak-acks, 9.7.6.1-go-back
#[test]
fn a_sequence_nak_is_answered_by_sending_again_from_its_psn() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 1..=4 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    let psns = hand.out_psns();
    hand.nak(psns[2], NakCode::PsnSequenceError);
    assert_eq!(hand.node.sent().len(), 2);
    assert_eq!(hand.out_psns(), [psns[2]]);
    hand.ack(psns[2]);
    assert_eq!(hand.out_psns(), [psns[3]]);
    assert_eq!(hand.stat(Stat::Retransmitted), 2);
}

/// An acknowledgement behind an outstanding READ shows that its response was lost: an implied NAK
/// (9.7.5.2.4). The requester retransmits the READ at once, and nothing else.
// shows: 9.7.6.1-read-not-by-ack, 9.7.6.1-implied-nak
// trap: ghost-acks
#[test]
fn an_acknowledgement_past_a_read_is_an_implied_nak() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Read(mem.remote(0)), &[mem.sge(8, 8)]);
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    let psns = hand.out_psns();
    hand.ack(psns[2]);
    let done: Vec<_> = hand.node.sent().iter().map(|c| c.wr_id).collect();
    assert_eq!(done, [1], "the READ has not completed, nor what follows");
    let again = hand.out();
    assert_eq!(again[0].opcode(), Opcode::RC_READ_REQUEST);
    assert_eq!(again.iter().map(Out::psn).collect::<Vec<_>>(), psns[1..2]);
    assert_eq!(hand.stat(Stat::ImpliedNaks), 1);
}

/// A missing READ response among others is an implied NAK, too. The requester requests only the
/// missing responses.
// shows: 9.7.3-read-again, 9.7.6.1-response-gap
// trap: lost-response
#[test]
fn a_gap_among_read_responses_is_an_implied_nak() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 10 * 1024);
    let remote = pair.mem(B, 10 * 1024);
    let data = pattern(5, 10 * 1024);
    remote.write(0, &data);
    pair.links[B].hit(&[4], Fate::Drop, |sent| {
        sent.opcode().operation() == Operation::ReadResponse
    });
    let started = pair.now;
    pair.post(
        A,
        1,
        SendOp::Read(remote.remote(0)),
        &[local.sge(0, data.len())],
    );
    pair.run_until(|pair| !pair.nodes[A].send_cq.is_empty());
    assert!(local.read(0, data.len()) == data);
    let requests: Vec<_> = pair.links[A]
        .log
        .iter()
        .filter_map(|s| s.ext.reth)
        .collect();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].va, remote.addr() + 4 * 1024);
    assert_eq!(requests[1].dma_len, 1024);
    // Without waiting for a timeout, which would be about 1 ms.
    let took = pair.now.saturating_duration_since(started);
    assert!(took.as_micros() < 100, "{took:?}");
    assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
}

/// Responses that the network delivers out of order cost one retry, not one for each.
// shows: 9.7.6.1-response-gap
// trap: lost-response
#[test]
fn reordered_read_responses_do_not_use_up_the_retries() {
    let mut pair = Pair::new(Setup {
        retry_cnt: 1,
        ..Setup::default()
    });
    let len = 32 * 1024;
    let local = pair.mem(A, len);
    let remote = pair.mem(B, len);
    remote.write(0, &pattern(6, len));
    // The third response of the first burst is very late, and the rest is reordered.
    let mut n = 0;
    pair.links[B].script(move |_| {
        n += 1;
        match n {
            3 => Fate::Delay(core::time::Duration::from_micros(20)),
            4.. if n < 32 && n % 3 == 0 => Fate::Delay(core::time::Duration::from_nanos(100)),
            _ => Fate::Pass,
        }
    });
    pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert!(local.read(0, len) == pattern(6, len));
}

fn response(hand: &mut Hand, opcode: Opcode, psn: u32) {
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(opcode, psn);
    hand.deliver(bth, ext, &[7; 1024]);
}

/// An acknowledgement of a READ's first responses says nothing about the rest.
#[test]
fn an_acknowledgement_within_a_read_is_no_implied_nak() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(3 * 1024);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 3 * 1024)]);
    let psn = hand.out_one().psn();
    response(&mut hand, Opcode::RC_READ_RESPONSE_FIRST, psn);
    hand.ack(psn);
    assert!(hand.out().is_empty());
    assert_eq!(hand.stat(Stat::ImpliedNaks), 0);
}

/// After a timeout the requester requests everything again, and any evidence of a gap counts again.
#[test]
fn a_gap_is_news_again_after_a_timeout() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4 * 1024);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 4 * 1024)]);
    let psn = hand.out_one().psn();
    response(&mut hand, Opcode::RC_READ_RESPONSE_MIDDLE, psn + 1);
    assert_eq!(hand.out_psns(), [psn]);
    response(&mut hand, Opcode::RC_READ_RESPONSE_MIDDLE, psn + 2);
    assert!(hand.out().is_empty(), "still of the first burst, maybe");
    while hand.stat(Stat::Timeouts) == 0 {
        hand.timeout();
        assert_eq!(hand.out_psns(), [psn]);
    }
    response(&mut hand, Opcode::RC_READ_RESPONSE_MIDDLE, psn + 2);
    assert_eq!(hand.out_psns(), [psn]);
}

/// Reserved syndromes have no effect (9.7.5.2).
// shows: 9.7.6.1-reserved
#[test]
fn reserved_syndromes_are_dropped() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    for byte in [0x40, 0x80, 0xff, 0x65, 0x7f] {
        hand.answer(psn, Syndrome::from_byte(byte));
    }
    assert_eq!(hand.drops(DropReason::UnexpectedResponse), 5);
    assert!(hand.node.sent().is_empty());
}

/// Every packet has the fields that hardware expects: MigReq set, the QP's partition, and a request
/// for an acknowledgement at the end of each message.
// shows: 9.2.3-migreq-sent, 9.7.3-ask-at-end, A16-default-pkey
// trap: migreq
#[test]
fn the_last_packet_of_a_message_asks_for_an_acknowledgement() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 2049)]);
    hand.post(2, SendOp::Write(mem.remote(0)), &[mem.sge(0, 1)]);
    let out = hand.out();
    let asks: Vec<_> = out.iter().map(|o| o.bth.ack_req).collect();
    assert_eq!(asks, [false, false, true, true]);
    assert!(out.iter().all(|o| o.bth.mig_req && o.bth.pkey.0 == 0xffff));
}

/// MigReq may be 0, as Soft-RoCE sends it, or 1, as hardware does.
// shows: 9.2.3-migreq-taken
// trap: migreq
#[test]
fn both_values_of_migreq_are_taken() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for mig_req in [false, true] {
        let ext = mem.reth(0, 1);
        let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
        bth.mig_req = mig_req;
        hand.psn += 1;
        hand.deliver(bth, ext, &[1 + u8::from(mig_req)]);
        assert_eq!(mem.read(0, 1), [1 + u8::from(mig_req)]);
    }
}
