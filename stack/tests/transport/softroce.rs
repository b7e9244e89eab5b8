//! The behaviour of the Linux kernel's Soft-RoCE, and how the stack interoperates with it. Each
//! case was found in a capture.

use crate::sim::{Hand, Out, Setup};
use roce_stack::{SendOp, Stat, WcStatus};
use roce_wire::{Aeth, AtomicAckEth, ExtHeaders, Opcode};

/// As a requester it treats an acknowledgement with the PSN of a READ or atomic as success, even if
/// the response was lost and no data has arrived. So the responder must never send one, whichever
/// duplicates arrive.
// shows: 9.7.5.1.2-fetch-not-acked
#[test]
fn a_duplicate_never_has_a_later_fetch_acknowledged() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    let first = hand.psn;
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[2; 8]);
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 3000), &[]);
    // Its response has three packets, so the next request has this PSN:
    hand.psn = first + 5;
    hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
    let ack_of_duplicate = |hand: &mut Hand| {
        hand.out();
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, first);
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
        let ack = hand.out_one();
        assert_eq!(ack.opcode(), Opcode::RC_ACKNOWLEDGE);
        (ack.psn(), ack.ext.aeth.map(|aeth| aeth.msn))
    };
    assert_eq!(ack_of_duplicate(&mut hand), (first + 1, Some(2)));
    // A SEND or WRITE after them acknowledges them by coalescing.
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[3; 8]);
    assert_eq!(ack_of_duplicate(&mut hand), (first + 6, Some(5)));
}

/// As a responder it acknowledges each packet of a duplicate SEND or WRITE, always with the PSN of
/// its newest request, even that of an atomic. All of these are evidence of one lost response: they
/// cost one retry, not one each.
// shows: 9.7.6.1-implied-nak
#[test]
fn many_acknowledgements_of_an_atomic_cost_one_retry() {
    let mut hand = Hand::new(Setup {
        retry_cnt: 1,
        ..Setup::default()
    });
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let add = SendOp::FetchAdd {
        remote: mem.remote(0),
        add: 1,
    };
    hand.post(2, add, &[mem.sge(8, 8)]);
    let psns = hand.out_psns();
    for _ in 0..30 {
        hand.ack(psns[1]);
    }
    let again: Vec<_> = hand.out().iter().map(Out::psn).collect();
    assert_eq!(again, psns[1..]);
    assert_eq!(hand.stat(Stat::ImpliedNaks), 1);

    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        atomic_ack: Some(AtomicAckEth { original: 5 }),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(Opcode::RC_ATOMIC_ACKNOWLEDGE, psns[1]);
    hand.deliver(bth, ext, &[]);
    let done: Vec<_> = hand
        .node
        .sent()
        .iter()
        .map(|c| (c.wr_id, c.status))
        .collect();
    assert_eq!(done, [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(mem.word(8), 5);
}
