//! READs and loss: out-of-order responses are kept, and the requester requests again only what is
//! missing (IBTA 1.7, 9.7.5.1.3 and 9.7.5.2.4).

use crate::sim::{A, B, Fate, Hand, Pair, Sent, Setup, pattern};
use roce_stack::{DropReason, Duration, QpState, SendOp, Stat};
use roce_wire::{Aeth, AtomicAckEth, ExtHeaders, Opcode, Operation};

const MTU: usize = 1024;

fn is_response(sent: &Sent) -> bool {
    sent.opcode().operation() == Operation::ReadResponse
}

/// Two ends with a round trip of 10 us, which A has measured.
fn acquainted() -> Pair {
    let mut pair = Pair::new(Setup::default());
    pair.links[A].latency = Duration::from_micros(5);
    pair.links[B].latency = Duration::from_micros(5);
    let (local, remote) = (pair.mem(A, 8), pair.mem(B, 8));
    for n in 0..20 {
        pair.post(A, n, SendOp::Read(remote.remote(0)), &[local.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[n]);
    }
    pair.links[A].log.clear();
    pair.links[B].log.clear();
    pair
}

/// READs `packets` packets, and checks them and that no timeout was needed. Returns the requests:
/// the offset and the length of each part, in packets.
fn read(pair: &mut Pair, packets: usize) -> Vec<(u64, usize)> {
    let len = packets * MTU;
    let (local, remote) = (pair.mem(A, len), pair.mem(B, len));
    remote.write(0, &pattern(5, len));
    pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert!(local.read(0, len) == pattern(5, len));
    assert_eq!(pair.nodes[A].nic.counters().stat(Stat::Timeouts), 0);
    let asked = pair.links[A].log.iter().filter_map(|sent| sent.ext.reth);
    let part = |va: u64, len: u32| ((va - remote.addr()) / MTU as u64, len as usize / MTU);
    asked.map(|reth| part(reth.va, reth.dma_len)).collect()
}

/// The requester requests the missing responses again, the oldest first, and no other packet is
/// sent twice.
#[test]
fn only_missing_responses_are_asked_for_again() {
    let mut pair = acquainted();
    pair.links[B].hit(&[3, 7, 8], Fate::Drop, is_response);
    assert_eq!(read(&mut pair, 12), [(0, 12), (3, 1), (7, 2)]);
    assert_eq!(pair.links[B].count(is_response), 12 + 3);
    assert!(pair.nodes[A].nic.counters().stat(Stat::OutOfOrderKept) > 0);
    assert_eq!(
        pair.nodes[A].nic.counters().drops(DropReason::ResponseGap),
        0
    );
}

/// The repeated request, or its response, may be lost.
#[test]
fn a_response_that_is_lost_again_costs_no_timeout() {
    for side in [A, B] {
        let mut pair = acquainted();
        let lost: &'static [usize] = if side == A { &[3] } else { &[3, 12] };
        pair.links[B].hit(lost, Fate::Drop, is_response);
        if side == A {
            let is_request = |sent: &Sent| sent.ext.reth.is_some();
            pair.links[A].hit(&[1], Fate::Drop, is_request);
        }
        assert_eq!(read(&mut pair, 12), [(0, 12), (3, 1), (3, 1)]);
    }
}

/// A late response may only be slow, and then each response that is requested again is a duplicate.
/// So the requester asks for 16 at a time.
#[test]
fn late_responses_are_asked_for_in_parts() {
    let mut pair = acquainted();
    pair.links[A].hit(&[0], Fate::Drop, |sent| sent.ext.reth.is_some());
    let parts = [(0, 40), (0, 16), (16, 16), (32, 8)];
    assert_eq!(read(&mut pair, 40), parts);
    assert_eq!(pair.links[B].count(is_response), 40);
}

/// Nothing follows a lost last response or a lost request: the answer is late.
#[test]
fn the_loss_of_a_request_or_of_the_last_response_costs_no_timeout() {
    let mut pair = acquainted();
    pair.links[A].hit(&[0], Fate::Drop, |sent| sent.ext.reth.is_some());
    assert_eq!(read(&mut pair, 12), [(0, 12), (0, 12)]);
    let mut pair = acquainted();
    pair.links[B].hit(&[10, 11], Fate::Drop, is_response);
    assert_eq!(read(&mut pair, 12), [(0, 12), (10, 2)]);
}

/// Without room for out-of-order responses, the requester asks for everything from the missing one
/// on.
#[test]
fn without_room_the_rest_is_asked_for_again() {
    let mut pair = acquainted();
    pair.nodes[A].nic.set_reorder_limit(0);
    pair.links[B].hit(&[3], Fate::Drop, is_response);
    assert_eq!(read(&mut pair, 12), [(0, 12), (3, 9)]);
    assert!(pair.nodes[A].nic.counters().drops(DropReason::ResponseGap) > 0);
    let mut pair = acquainted();
    pair.nodes[A].nic.set_reorder_limit(2);
    pair.links[B].hit(&[3], Fate::Drop, is_response);
    read(&mut pair, 12);
}

/// Responses for which there is no room may arrive in any order, and each shows that an earlier one
/// is missing. A second loss is shown by a response whose PSN is no later than that of the one that
/// showed the first; or by any, if another response is missing.
// shows: 9.7.6.1-implied-nak
#[test]
fn a_response_without_room_shows_once_that_one_is_missing() {
    let mut hand = Hand::new(Setup::default());
    hand.node.nic.set_reorder_limit(1);
    let mem = hand.mem(6 * MTU);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 6 * MTU)]);
    let first = hand.out_one().psn();
    let mut asked_after = |opcode, index| {
        respond(&mut hand, opcode, first + index, &[0; MTU]);
        hand.out_psns()
    };
    let middle = Opcode::RC_READ_RESPONSE_MIDDLE;
    assert_eq!(asked_after(middle, 4), [first], "it is kept");
    assert_eq!(asked_after(middle, 2), [first]);
    assert_eq!(asked_after(middle, 3), [0; 0], "as before");
    assert_eq!(asked_after(middle, 2), [first], "it has come again");
    assert_eq!(asked_after(middle, 1), [first]);
    assert_eq!(asked_after(middle, 2), [0; 0], "as before");
    assert_eq!(asked_after(Opcode::RC_READ_RESPONSE_FIRST, 0), [0; 0]);
    assert_eq!(asked_after(middle, 3), [first + 1]);
}

fn respond(hand: &mut Hand, opcode: Opcode, psn: u32, payload: &[u8]) {
    let atomic_ack =
        (opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE).then_some(AtomicAckEth { original: 9 });
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        atomic_ack,
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(opcode, psn);
    hand.deliver(bth, ext, payload);
}

/// An out-of-order response changes neither memory nor completions. That includes READs, atomics
/// and the acknowledgement of a SEND among them: all of them count, in order, once the oldest has
/// arrived.
// shows: 9.7.6.1-response-gap, 9.5-completed-in-order
#[test]
fn early_responses_count_when_their_turn_has_come() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8 * MTU);
    let add = SendOp::FetchAdd {
        remote: mem.remote(0),
        add: 1,
    };
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2 * MTU)]);
    hand.post(2, add, &[mem.sge(2 * MTU, 8)]);
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(4, SendOp::Read(mem.remote(0)), &[mem.sge(3 * MTU, MTU)]);
    hand.post(5, SendOp::Send, &[mem.sge(0, 8)]);
    let first = hand.out()[0].psn();
    respond(
        &mut hand,
        Opcode::RC_READ_RESPONSE_ONLY,
        first + 4,
        &[4; MTU],
    );
    respond(&mut hand, Opcode::RC_ATOMIC_ACKNOWLEDGE, first + 2, &[]);
    hand.ack(first + 5);
    respond(
        &mut hand,
        Opcode::RC_READ_RESPONSE_LAST,
        first + 1,
        &[2; MTU],
    );
    assert!(hand.node.sent().is_empty());
    assert_eq!(mem.read(0, 8 * MTU), vec![0; 8 * MTU]);
    let again = hand.out();
    assert_eq!(again.len(), 1, "{again:#?}");
    let reth = again[0].ext.reth.expect("a READ");
    assert_eq!((again[0].psn(), reth.dma_len), (first, MTU as u32));
    respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, first, &[1; MTU]);
    let done: Vec<u64> = hand.node.sent().iter().map(|c| c.wr_id).collect();
    assert_eq!(done, [1, 2, 3, 4, 5]);
    assert_eq!(mem.read(0, MTU), [1; MTU]);
    assert_eq!(mem.read(MTU, MTU), [2; MTU]);
    assert_eq!(mem.word(2 * MTU), 9);
    assert_eq!(mem.read(3 * MTU, MTU), [4; MTU]);
    assert!(hand.out().is_empty());
}

/// A peer sends one NAK for a gap. If the NAK arrives while earlier responses are missing, it takes
/// effect when they have arrived.
#[test]
fn a_nak_behind_a_missing_response_is_not_forgotten() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4 * MTU);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, MTU)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    let psns = hand.out_psns();
    hand.nak(psns[1], roce_wire::NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns(), psns[..1]);
    respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psns[0], &[1; MTU]);
    assert_eq!(hand.out_psns()[0], psns[1]);
}

/// A requester's buffers return to the pool when its QP is reset, or fails.
#[test]
fn the_pool_gets_back_what_a_requester_kept() {
    for state in [QpState::Reset, QpState::Err] {
        let mut hand = Hand::new(Setup::default());
        hand.node.nic.set_reorder_limit(1);
        let mem = hand.mem(2 * MTU);
        for round in 1..=2 {
            hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2 * MTU)]);
            let psn = hand.out_one().psn();
            respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, psn + 1, &[1; MTU]);
            assert_eq!(hand.stat(Stat::OutOfOrderKept), round);
            for state in [state, QpState::Reset] {
                let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
                nic.modify_qp(hand.now, qpn, &crate::sim::to_state(state))
                    .expect("legal");
            }
            hand.advance_to(QpState::Rts);
        }
    }
}
