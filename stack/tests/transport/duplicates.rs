//! Duplicate requests: answered from state, never executed twice (IBTA 1.7, 9.7.4.1 and 9.7.5.1.3).
//! And the number of requests that a peer may have outstanding (9.7.4.1.2).

use crate::sim::{A, B, Fate, Hand, Mem, Out, Pair, Setup, pattern};
use roce_stack::{Access, DropReason, Duration, QpState, SendOp, Stat, WcStatus};
use roce_wire::{ExtHeaders, NakCode, Opcode, Operation, PathMtu, Syndrome};

/// A duplicate WRITE is acknowledged with the newest PSN, and not placed again: bytes that the
/// application wrote there meanwhile stay.
// shows: 9.7.4.1.1-duplicate, 9.7.5.1.3-duplicate-write
// trap: duplicates
#[test]
fn a_duplicate_write_is_acknowledged_but_not_placed_again() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let first = hand.psn;
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(8, 8), &[2; 8]);
    hand.out();
    mem.write(0, &[7; 16]);
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, first);
    hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    let ack = hand.out_one();
    assert_eq!(ack.psn(), first + 1);
    assert_eq!(ack.ext.aeth.map(|aeth| aeth.msn), Some(2));
    assert_eq!(mem.read(0, 16), [7; 16]);
    assert_eq!(hand.stat(Stat::DuplicateRequests), 1);
}

/// The same for SEND, which must not consume another receive.
// shows: 9.4.1-one-receive-each, 9.7.4.1.1-duplicate, 9.7.5.1.3-duplicate-send
// trap: duplicates
#[test]
fn a_duplicate_send_is_acknowledged_but_not_placed_again() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.post_recv(2, &[mem.sge(8, 8)]);
    let first = hand.psn;
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    assert_eq!(hand.node.received().len(), 1);
    hand.out();
    mem.write(0, &[7; 16]);
    let bth = hand.bth(Opcode::RC_SEND_ONLY, first);
    hand.deliver(bth, ExtHeaders::NONE, &[1; 8]);
    assert_eq!(hand.out_one().psn(), first);
    assert!(hand.node.received().is_empty());
    assert_eq!(mem.read(0, 16), [7; 16]);
}

/// A duplicate in the middle of a message does not disturb it.
// shows: 9.7.5.1.3-duplicate-part
#[test]
fn duplicates_of_parts_do_not_disturb_the_message() {
    let mut pair = Pair::new(Setup::default());
    let len = 5 * 1024;
    let from = pair.mem(A, len);
    let to = pair.mem(B, 2 * len);
    from.write(0, &pattern(1, len));
    pair.links[A].script(|_| Fate::Echo(Duration::from_nanos(1)));
    pair.post_recv(B, 7, &[to.sge(0, len)]);
    pair.post(A, 1, SendOp::Send, &[from.sge(0, len)]);
    pair.post(A, 2, SendOp::Write(to.remote(len)), &[from.sge(0, len)]);
    pair.run();
    pair.assert_sent(A, &[1, 2]);
    pair.assert_received(B, &[7]);
    assert!(to.read(0, len) == pattern(1, len) && to.read(len, len) == pattern(1, len));
}

/// A duplicate READ is answered again, with the present data.
// shows: 9.7.5.1.3-duplicate-read
// trap: duplicates
#[test]
fn a_duplicate_read_is_answered_with_current_data() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    mem.write(0, &[1; 8]);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    assert_eq!(hand.out_one().payload, [1; 8]);
    mem.write(0, &[2; 8]);
    let bth = hand.bth(Opcode::RC_READ_REQUEST, first);
    hand.deliver(bth, mem.reth(0, 8), &[]);
    let again = hand.out_one();
    assert_eq!((again.psn(), again.payload), (first, vec![2; 8]));
    // And the next request is still the next.
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[3; 8]);
    assert_eq!(hand.out_one().psn(), first + 1);
}

/// After a loss, a requester may ask for the rest of a READ only.
// shows: 9.4.4-read-response-opcodes, 9.7.5.1.1-response-psn, 9.7.5.1.3-duplicate-read-rest
#[test]
fn the_rest_of_a_read_may_be_asked_for_again() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(1024);
    mem.write(0, &pattern(1, 1024));
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 1000), &[]);
    assert_eq!(hand.out().len(), 4);
    let bth = hand.bth(Opcode::RC_READ_REQUEST, first + 2);
    hand.deliver(bth, mem.reth(512, 488), &[]);
    let again = hand.out();
    let opcodes: Vec<_> = again.iter().map(Out::opcode).collect();
    assert_eq!(
        opcodes,
        [
            Opcode::RC_READ_RESPONSE_FIRST,
            Opcode::RC_READ_RESPONSE_LAST
        ]
    );
    assert_eq!(again[0].psn(), first + 2);
    assert!([&again[0].payload[..], &again[1].payload].concat() == mem.read(512, 488));
}

/// A requester whose peer is slow asks for some responses again, which the peer has not sent yet. The
/// peer still sends the others.
// shows: 9.7.5.1.3-duplicate-read
#[test]
fn a_duplicate_of_a_part_does_not_cancel_the_rest_of_a_read() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(1024);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 1000), &[]);
    let bth = hand.bth(Opcode::RC_READ_REQUEST, first);
    hand.deliver(bth, mem.reth(0, 512), &[]);
    assert_eq!(hand.out_psns(), [first, first + 1, first + 2, first + 3]);
}

/// The range of a duplicate must lie within the original: nothing else is read.
// shows: 9.7.5.1.3-duplicate-read-within
#[test]
fn a_duplicate_read_of_something_else_is_dropped() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(4096);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 500), &[]);
    hand.out();
    // The same memory by another key, which is valid but was not in the original.
    let (pd, buffer) = (hand.node.pd, mem.buffer.clone());
    let other_key = Mem {
        key: hand
            .node
            .nic
            .register_buffer(pd, buffer, Access::REMOTE_READ)
            .expect("registered"),
        ..mem.clone()
    };
    let other_key = other_key.reth(0, 500);
    let cases = [
        (first, mem.reth(8, 500)),
        (first, mem.reth(0, 501)),
        (first, mem.reth(0, 513)),
        (first, mem.reth(0, 4096)),
        (first + 1, mem.reth(0, 512)),
        (first + 1, mem.reth(256, 257)),
        (first, other_key),
        (first - 1, mem.reth(0, 8)),
    ];
    let count = cases.len() as u64;
    for (psn, ext) in cases {
        let bth = hand.bth(Opcode::RC_READ_REQUEST, psn);
        hand.deliver(bth, ext, &[]);
        assert!(hand.out().is_empty(), "{psn} {ext:?}");
    }
    assert_eq!(hand.drops(DropReason::StaleDuplicate), count);
    assert_eq!(hand.state(), QpState::Rts);
}

/// A duplicate atomic gets the original result and is not executed again.
// shows: 9.4.5-once, 9.7.5.1.1-atomic-psn, 9.7.5.1.3-duplicate-atomic
// trap: duplicates
#[test]
fn a_duplicate_atomic_is_not_executed_again() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    mem.set_word(0, 10);
    let first = hand.psn;
    hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 5), &[]);
    hand.request(Opcode::RC_COMPARE_SWAP, mem.atomic(15, 40), &[]);
    let results: Vec<_> = hand.out().iter().map(|o| o.ext.atomic_ack).collect();
    mem.set_word(0, 99);
    for (n, opcode) in [Opcode::RC_FETCH_ADD, Opcode::RC_COMPARE_SWAP]
        .into_iter()
        .enumerate()
    {
        let bth = hand.bth(opcode, first + n as u32);
        hand.deliver(bth, mem.atomic(15, 40), &[]);
        let again = hand.out_one();
        assert_eq!(again.psn(), first + n as u32);
        assert_eq!(again.ext.atomic_ack, results[n]);
    }
    assert_eq!(mem.word(0), 99);
}

/// Exactly once, with any losses and copies.
// shows: 9.4.5-once, 9.7.3-atomic-again
#[test]
fn atomics_happen_once_over_a_bad_wire() {
    let mut pair = Pair::new(Setup::default());
    for link in &mut pair.links {
        link.faults.drop = 2000;
        link.faults.duplicate = 2000;
        link.faults.reorder = 1000;
    }
    let result = pair.mem(A, 8);
    let word = pair.mem(B, 8);
    for n in 0..200_u64 {
        let op = SendOp::FetchAdd {
            remote: word.remote(0),
            add: 1,
        };
        pair.post(A, n, op, &[result.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[n]);
        assert_eq!((result.word(0), word.word(0)), (n, n + 1));
    }
}

/// State is kept for as many READs and atomics as the peer may have outstanding; older duplicates
/// can't matter to it and are dropped.
// shows: 9.7.5.1.3-kept, 9.7.5.1.3-stale
#[test]
fn what_is_too_old_to_be_repeated_is_dropped() {
    let mut hand = Hand::new(Setup {
        dest_rd_atomic: 2,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    let first = hand.psn;
    for _ in 0..3 {
        hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
        hand.out_one();
    }
    let bth = hand.bth(Opcode::RC_FETCH_ADD, first);
    hand.deliver(bth, mem.atomic(0, 1), &[]);
    assert!(hand.out().is_empty());
    assert_eq!(hand.drops(DropReason::StaleDuplicate), 1);
    assert_eq!(mem.word(0), 3);
}

fn read(hand: &mut Hand, mem: &Mem) {
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
}

/// More READs and atomics outstanding than `max_dest_rd_atomic` are an invalid
/// request (9.7.4.1.2).
// shows: 9.7.4.1-resources
#[test]
fn more_reads_than_responder_resources_are_refused() {
    let mut hand = Hand::new(Setup {
        dest_rd_atomic: 2,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    let first = hand.psn;
    for _ in 0..3 {
        read(&mut hand, &mem);
    }
    // The first two are answered; then the refusal follows.
    let out = hand.out();
    assert_eq!(
        out.iter().map(Out::psn).collect::<Vec<_>>(),
        [first, first + 1, first + 2]
    );
    assert_eq!(
        out[2].syndrome(),
        Some(Syndrome::Nak(NakCode::InvalidRequest))
    );
    assert_eq!(hand.state(), QpState::Err);
}

/// With `max_dest_rd_atomic` 0, none is accepted.
// shows: 9.7.4.1-no-resources
#[test]
fn without_responder_resources_no_read_is_taken() {
    for opcode in [Opcode::RC_READ_REQUEST, Opcode::RC_FETCH_ADD] {
        let mut hand = Hand::new(Setup {
            dest_rd_atomic: 0,
            ..Setup::default()
        });
        let mem = hand.mem(8);
        let ext = if opcode == Opcode::RC_FETCH_ADD {
            mem.atomic(0, 1)
        } else {
            mem.reth(0, 8)
        };
        hand.request(opcode, ext, &[]);
        let nak = hand.out_one();
        assert_eq!(nak.syndrome(), Some(Syndrome::Nak(NakCode::InvalidRequest)));
        assert_eq!(mem.word(0), 0);
    }
}

/// Late copies of READs that were answered long ago take no room from new ones.
#[test]
fn late_copies_of_reads_do_not_count_as_outstanding() {
    let mut hand = Hand::new(Setup {
        dest_rd_atomic: 2,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    let first = hand.psn;
    read(&mut hand, &mem);
    read(&mut hand, &mem);
    hand.out();
    for psn in [first, first + 1] {
        let bth = hand.bth(Opcode::RC_READ_REQUEST, psn);
        hand.deliver(bth, mem.reth(0, 8), &[]);
    }
    read(&mut hand, &mem);
    read(&mut hand, &mem);
    assert_eq!(hand.out_psns(), [first + 2, first + 3]);
    assert_eq!(hand.state(), QpState::Rts);
}

/// A late copy of a READ withdraws neither the response to a later one nor an acknowledgement or a
/// NAK that waits to be sent.
// shows: 9.7.5.1-order
#[test]
fn a_late_copy_of_a_read_withdraws_nothing() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let first = hand.psn;
    read(&mut hand, &mem);
    hand.out();
    read(&mut hand, &mem);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    let copy = hand.bth(Opcode::RC_READ_REQUEST, first);
    hand.deliver(copy, mem.reth(0, 8), &[]);
    assert_eq!(hand.out_psns(), [first, first + 1, first + 2]);
    // RNR NAK, then the copy, then the answers that waited.
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[]);
    hand.deliver(copy, mem.reth(0, 8), &[]);
    let out = hand.out();
    assert_eq!(out.len(), 2);
    assert!(matches!(out[1].syndrome(), Some(Syndrome::RnrNak(_))));
}

/// A requester never has more READs and atomics outstanding than `max_rd_atomic`.
// shows: 9.7.3-max-rd-atomic
#[test]
fn a_requester_keeps_to_its_limit_of_reads() {
    for limit in [1, 3] {
        let mut hand = Hand::new(Setup {
            rd_atomic: limit,
            ..Setup::default()
        });
        let mem = hand.mem(80);
        for n in 0..10 {
            hand.post(n, SendOp::Read(mem.remote(0)), &[mem.sge(0, 8)]);
        }
        let first = hand.setup.psn[0];
        let out = hand.out_psns();
        assert_eq!(out, (first..first + u32::from(limit)).collect::<Vec<_>>());
        // Each response allows one more.
        let ext = ExtHeaders {
            aeth: Some(roce_wire::Aeth::default()),
            ..ExtHeaders::NONE
        };
        let bth = hand.bth(Opcode::RC_READ_RESPONSE_ONLY, first);
        hand.deliver(bth, ext, &[5; 8]);
        assert_eq!(hand.out_psns(), [first + u32::from(limit)]);
        assert_eq!(hand.node.sent().len(), 1);
    }
}

/// A long READ is split into pieces of the window; the pieces count.
// shows: 9.7.3-max-rd-atomic
#[test]
fn long_reads_keep_to_the_limit_and_to_the_window() {
    for (rd_atomic, dest_rd_atomic) in [(1, 1), (2, 2), (4, 4)] {
        let mut pair = Pair::new(Setup {
            rd_atomic,
            dest_rd_atomic,
            window_bytes: 16 << 10,
            ..Setup::default()
        });
        let len = 200_000;
        let local = pair.mem(A, len);
        let remote = pair.mem(B, len);
        remote.write(0, &pattern(4, len));
        pair.links[B].faults.drop = 300;
        pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1]);
        assert!(local.read(0, len) == pattern(4, len));
        let longest = pair.links[A]
            .log
            .iter()
            .filter_map(|s| s.ext.reth)
            .map(|r| r.dma_len)
            .max();
        assert!(longest <= Some(16 << 10), "{longest:?}");
        assert_eq!(pair.state(B), QpState::Rts);
    }
}

/// READs, many posted at once to a peer with as many resources as the requester uses, with every
/// packet duplicated: none is refused.
// shows: 9.7.5.1.3-kept
#[test]
fn duplicated_requests_never_exhaust_responder_resources() {
    let mut pair = Pair::new(Setup {
        rd_atomic: 2,
        dest_rd_atomic: 2,
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let local = pair.mem(A, 64 * 1024);
    let remote = pair.mem(B, 1024);
    pair.links[A].script(|sent| match sent.opcode().operation() {
        Operation::ReadRequest => Fate::Echo(Duration::from_micros(4)),
        _ => Fate::Pass,
    });
    for n in 0..60 {
        pair.post(A, n, SendOp::Read(remote.remote(0)), &[local.sge(0, 600)]);
    }
    pair.run();
    let done = pair.nodes[A].sent();
    assert_eq!(done.len(), 60);
    assert!(done.iter().all(|c| c.status == WcStatus::Success));
}
