//! How a requester handles responses to READs and atomics (IBTA 1.7, 9.7.6.1).

use crate::sim::{Hand, Setup};
use roce_stack::{DropReason, SendOp};
use roce_wire::{Aeth, Credits, ExtHeaders, Opcode, Syndrome};

/// A packet of a READ's response.
fn response(hand: &mut Hand, opcode: Opcode, psn: u32, payload: &[u8]) {
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        ..ExtHeaders::NONE
    };
    hand.deliver(hand.bth(opcode, psn), ext, payload);
}

/// A duplicate response is dropped for that reason and no other, and the data of the first one
/// stay.
#[test]
fn a_response_that_came_before_is_dropped_for_one_reason() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(2048);
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2048)]);
    let psn = hand.out_one().psn();
    let first = Opcode::RC_READ_RESPONSE_FIRST;
    response(&mut hand, first, psn, &[1; 1024]);
    response(&mut hand, first, psn, &[2; 1024]);
    assert_eq!(hand.drops(DropReason::DuplicateResponse), 1);
    let all = DropReason::ALL.iter().map(|reason| hand.drops(*reason));
    assert_eq!(all.sum::<u64>(), 1);
    response(
        &mut hand,
        Opcode::RC_READ_RESPONSE_LAST,
        psn + 1,
        &[3; 1024],
    );
    assert_eq!(hand.node.sent().len(), 1);
    assert_eq!(mem.read(0, 1024), [1; 1024]);
}

/// A response carries credits, as an acknowledgement does (9.7.7.2).
#[test]
fn a_response_brings_credits() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post(0, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.answer(psn, Syndrome::Ack(Credits::from_count(0)));
    hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let aeth = Aeth {
        syndrome: Syndrome::Ack(Credits::from_count(2)),
        msn: 0,
    };
    let ext = ExtHeaders {
        aeth: Some(aeth),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(Opcode::RC_READ_RESPONSE_ONLY, psn);
    hand.deliver(bth, ext, &[7; 8]);
    for wr_id in 2..5 {
        hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
    }
    assert_eq!(hand.out_psns(), [psn + 1, psn + 2]);
}
