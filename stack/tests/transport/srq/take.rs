//! Which QP takes which receive, and when.

use super::{Many, create, init, size};
use crate::sim::{A, B, Faults, Hand, Pair, Setup, pattern};
use roce_stack::{
    PostError, QpKind, QpState, RecvRequest, SendOp, SrqInit, Stat, WcOpcode, WcStatus,
};
use roce_wire::{Credits, ExtHeaders, ImmDt, Opcode, Syndrome};

/// Receives are taken in the order in which they were posted, by the messages of all QPs in the
/// order in which those begin.
// shows: 10.2.9-srq, 10.2.9-srq-order
#[test]
fn receives_go_to_messages_as_they_begin() {
    let mut many = Many::new(3);
    let mem = many.hand.mem(8192);
    for wr_id in 0..4 {
        many.post(wr_id, &[mem.sge(wr_id as usize * 2048, 2048)]);
    }
    many.send(2, Opcode::RC_SEND_FIRST, &[2; 1024]);
    many.send(0, Opcode::RC_SEND_ONLY, &[0; 8]);
    many.send(1, Opcode::RC_SEND_FIRST, &[1; 1024]);
    many.send(0, Opcode::RC_SEND_ONLY, &[9; 8]);
    many.send(1, Opcode::RC_SEND_LAST, &[11; 1]);
    many.send(2, Opcode::RC_SEND_LAST, &[12; 1]);
    let done = many.received();
    let expected = [(1, 0, true), (3, 0, true), (2, 1, true), (0, 2, true)];
    assert_eq!(done, expected);
    assert_eq!(mem.read(0, 1024), [2; 1024]);
    assert_eq!(mem.read(1024, 1), [12]);
    assert_eq!(mem.read(2 * 2048, 1024), [1; 1024]);
    assert_eq!(mem.read(2 * 2048 + 1024, 1), [11]);
    assert_eq!(mem.read(3 * 2048, 8), [9; 8]);
}

/// A responder with an SRQ does not count credits: other QPs may use up the receives (9.7.7.2).
// shows: 10.2.9-srq-credits
#[test]
fn acknowledgements_carry_no_credits() {
    let mut many = Many::new(1);
    many.post(1, &[]);
    many.post(2, &[]);
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    let ack = many.hand.out_one();
    assert_eq!(ack.syndrome(), Some(Syndrome::Ack(Credits::INVALID)));
    assert_eq!(ack.syndrome().map(Syndrome::byte), Some(0x1f));
}

/// An empty SRQ is "receiver not ready"; the message is accepted when it is retransmitted.
// shows: 10.2.9-srq-rnr
#[test]
fn an_empty_srq_is_not_ready() {
    let mut many = Many::new(2);
    many.send(0, Opcode::RC_SEND_ONLY, &[5; 8]);
    let nak = many.hand.out_one();
    assert!(matches!(nak.syndrome(), Some(Syndrome::RnrNak(_))));
    assert_eq!(many.hand.state(), QpState::Rts);
    let mem = many.hand.mem(8);
    many.post(1, &[mem.sge(0, 8)]);
    assert!(
        many.hand.out().is_empty(),
        "the SRQ does not know which peers wait: the peer's timer decides"
    );
    many.qps[0].1 -= 1;
    many.send(0, Opcode::RC_SEND_ONLY, &[5; 8]);
    assert_eq!(many.received(), [(1, 0, true)]);
    assert_eq!(mem.read(0, 8), [5; 8]);
    // A middle packet without its first does not begin a message.
    many.post(2, &[]);
    many.send(1, Opcode::RC_SEND_MIDDLE, &[0; 1024]);
    assert_eq!(many.on(1).state(), QpState::Err);
    assert_eq!(many.status().posted, 1);
}

/// A kept request that can't be executed leaves the SRQ as it was.
#[test]
fn a_kept_request_that_is_dropped_takes_no_receive() {
    let mut many = Many::new(2);
    let mem = many.hand.mem(8);
    many.post(1, &[mem.sge(0, 8)]);
    many.qps[0].1 += 1;
    many.send(0, Opcode::RC_SEND_ONLY, &[7; 9]);
    many.qps[0].1 -= 2;
    let write = mem.reth(0, 8);
    many.request(0, Opcode::RC_WRITE_ONLY, write, &[1; 8]);
    assert_eq!(many.on(0).state(), QpState::Rts);
    assert_eq!(many.status().posted, 1);
    many.send(1, Opcode::RC_SEND_ONLY, &[5; 8]);
    assert_eq!(many.received(), [(1, 1, true)]);
}

/// WRITE with immediate takes a receive at its end, WRITE, READ and atomics none.
#[test]
fn only_messages_that_need_a_receive_take_one() {
    let mut many = Many::new(1);
    let mem = many.hand.mem(4096);
    many.post(1, &[]);
    many.request(0, Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    many.request(0, Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    many.request(0, Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
    many.request(0, Opcode::RC_WRITE_FIRST, mem.reth(0, 1025), &[1; 1024]);
    assert_eq!(many.status().posted, 1);
    let imm = ExtHeaders {
        imm: Some(ImmDt(77)),
        ..ExtHeaders::NONE
    };
    many.request(0, Opcode::RC_WRITE_LAST_WITH_IMMEDIATE, imm, &[1]);
    let done = many.hand.node.received();
    assert_eq!(done.len(), 1);
    assert_eq!(
        (done[0].wr_id, done[0].imm, done[0].opcode),
        (1, Some(77), WcOpcode::RecvRdmaWithImm)
    );
    assert_eq!(many.status().posted, 0);
    // Without a receive, the WRITE's last packet does not place its bytes.
    many.request(0, Opcode::RC_WRITE_FIRST, mem.reth(0, 1032), &[2; 1024]);
    many.hand.out();
    many.request(0, Opcode::RC_WRITE_LAST_WITH_IMMEDIATE, imm, &[2; 8]);
    let nak = many.hand.out_one();
    assert!(matches!(nak.syndrome(), Some(Syndrome::RnrNak(_))));
    assert_eq!(mem.read(1024, 8), [1, 0, 0, 0, 0, 0, 0, 0]);
}

/// Duplicates and requests behind a gap take nothing.
#[test]
fn duplicates_and_gaps_take_nothing() {
    let mut many = Many::new(1);
    for wr_id in 0..3 {
        many.post(wr_id, &[]);
    }
    let first = many.qps[0].1;
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    many.qps[0].1 = first;
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    many.qps[0].1 = first + 5;
    many.send(0, Opcode::RC_SEND_ONLY, &[]);
    assert_eq!(many.received(), [(0, 0, true)]);
    assert_eq!(many.status().posted, 2);
}

/// Receives can't be posted to the QP itself.
// shows: 10.2.9-srq-no-own
#[test]
fn a_qp_with_an_srq_takes_no_receives() {
    let mut many = Many::new(1);
    let wr = RecvRequest {
        wr_id: 1,
        sges: &[],
    };
    let (srq, now) = (many.srq, many.hand.now);
    for state in [QpState::Rts, QpState::Err] {
        let hand = many.on(0);
        if state == QpState::Err {
            let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
            nic.modify_qp(now, qpn, &crate::sim::to_state(state))
                .expect("legal");
        }
        let error = hand.node.nic.post_recv(now, hand.node.qpn, &wr);
        assert_eq!(error, Err(PostError::UsesSrq(srq)), "{state:?}");
        let text = error.expect_err("refused").to_string();
        assert!(text.contains(&srq.to_string()), "{text}");
    }
    assert!(many.received().is_empty());
}

/// The memory of a receive must belong to the SRQ's domain, whatever the QP's is.
// shows: 10.2.9-srq-pd
#[test]
fn the_srqs_domain_rules_its_receives() {
    for srq_has_its_own in [true, false] {
        let mut hand = Hand::in_reset(Setup::default());
        let mem = hand.mem(64);
        let (mine, other) = (hand.node.pd, hand.node.nic.alloc_pd());
        let (srq_pd, qp_pd) = if srq_has_its_own {
            (mine, other)
        } else {
            (other, mine)
        };
        let srq = hand.node.nic.create_srq(&SrqInit {
            pd: srq_pd,
            size: size(4),
        });
        let srq = srq.expect("an SRQ");
        let mut init = init(&hand);
        init.pd = qp_pd;
        let qpn = hand.node.nic.create_qp_with_srq(init, srq);
        hand.node.qpn = qpn.expect("a QP");
        hand.advance_to(QpState::Rts);
        let sges = [mem.sge(0, 8)];
        let wr = RecvRequest {
            wr_id: 1,
            sges: &sges,
        };
        hand.node.nic.post_srq_recv(srq, &wr).expect("posted");
        hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
        let status = hand.node.received()[0].status;
        if srq_has_its_own {
            assert_eq!(status, WcStatus::Success);
            assert_eq!(mem.read(0, 8), [1; 8]);
        } else {
            assert_eq!(status, WcStatus::LocalProtectionError);
            assert_eq!(mem.read(0, 8), [0; 8]);
        }
    }
}

/// Over a wire that loses, duplicates and reorders, each message takes one receive and each receive
/// gets one message, in order.
#[test]
fn a_bad_wire_changes_nothing() {
    for seed in 1..=20 {
        let mut pair = Pair::unconnected(Setup {
            seed,
            timeout: 6,
            ..Setup::default()
        });
        let pd = pair.nodes[B].pd;
        let init = SrqInit { pd, size: size(64) };
        let srq = pair.nodes[B].nic.create_srq(&init).expect("an SRQ");
        let node = &mut pair.nodes[B];
        let qp_init = node.init(QpKind::Rc, pair.setup.queue);
        node.qpn = node.nic.create_qp_with_srq(qp_init, srq).expect("a QP");
        for side in [A, B] {
            pair.connect(side);
            pair.links[side].faults = Faults {
                drop: 300,
                duplicate: 300,
                reorder: 300,
                corrupt: 100,
            };
        }
        let from = pair.mem(A, 4096);
        let to = pair.mem(B, 40 * 4096);
        from.write(0, &pattern(seed, 4096));
        for wr_id in 0..40_usize {
            let len = [3000, 0, 8, 1024][wr_id % 4];
            pair.post(A, wr_id as u64, SendOp::Send, &[from.sge(0, len)]);
        }
        // The receives are posted late, a few at a time.
        for wr_id in 0..40_usize {
            for _ in 0..wr_id % 5 {
                pair.step();
            }
            let sges = [to.sge(wr_id * 4096, 4096)];
            let wr = RecvRequest {
                wr_id: wr_id as u64,
                sges: &sges,
            };
            pair.nodes[B].nic.post_srq_recv(srq, &wr).expect("posted");
        }
        pair.run();
        let all: Vec<u64> = (0..40).collect();
        pair.assert_sent(A, &all);
        for (wr_id, done) in pair.assert_received(B, &all).iter().enumerate() {
            let len = [3000, 0, 8, 1024][wr_id % 4];
            assert_eq!(done.byte_len as usize, len, "seed {seed}");
            assert_eq!(to.read(wr_id * 4096, len), pattern(seed, 4096)[..len]);
        }
        assert!(pair.nodes[B].nic.counters().stat(Stat::RnrNaksSent) > 0);
    }
}

/// An SRQ with one element does not break QPs that were created for more.
#[test]
fn receives_have_as_many_elements_as_the_srq_allows() {
    let mut many = Many::new(1);
    let mem = many.hand.mem(64);
    let sges = [0, 1, 2, 3].map(|i| mem.sge(i * 16, 4));
    many.post(1, &sges);
    let five = [sges[0]; 5];
    let wr = RecvRequest {
        wr_id: 2,
        sges: &five,
    };
    let error = many.hand.node.nic.post_srq_recv(many.srq, &wr);
    assert_eq!(error, Err(PostError::TooManySges { given: 5, max: 4 }));
    many.send(0, Opcode::RC_SEND_ONLY, &pattern(3, 16));
    assert_eq!(many.received(), [(1, 0, true)]);
    let scattered: Vec<u8> = (0..4).flat_map(|i| mem.read(i * 16, 4)).collect();
    assert_eq!(scattered, pattern(3, 16));
    let _ = create(&mut many.hand, many.srq);
}

/// UC takes receives from an SRQ, too: a message that loses its end leaves its receive to the next
/// message of the same QP.
#[test]
fn uc_takes_receives_from_an_srq() {
    let mut hand = Hand::in_reset(Setup {
        kind: roce_stack::QpKind::Uc,
        ..Setup::default()
    });
    let srq = hand.node.nic.create_srq(&SrqInit {
        pd: hand.node.pd,
        size: size(4),
    });
    let srq = srq.expect("an SRQ");
    hand.node.qpn = create(&mut hand, srq);
    hand.advance_to(QpState::Rts);
    let mem = hand.mem(2048);
    let sges = [mem.sge(0, 2048)];
    for wr_id in 1..3 {
        let wr = RecvRequest { wr_id, sges: &sges };
        hand.node.nic.post_srq_recv(srq, &wr).expect("posted");
    }
    let posted = |hand: &Hand| hand.node.nic.query_srq(srq).expect("an SRQ").posted;
    hand.request(Opcode::UC_SEND_FIRST, ExtHeaders::NONE, &[1; 1024]);
    assert_eq!(posted(&hand), 1);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[2; 8]);
    let done = hand.node.received();
    assert_eq!((done.len(), done[0].wr_id, done[0].byte_len), (1, 1, 8));
    assert_eq!(mem.read(0, 9), [2, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert_eq!(posted(&hand), 1);
    // If it is empty, the message is lost silently.
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[2; 8]);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[2; 8]);
    assert_eq!(hand.node.received().len(), 1);
    assert!(hand.out().is_empty());
    assert_eq!(hand.drops(roce_stack::DropReason::NoReceive), 1);
}
