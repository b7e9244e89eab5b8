//! Objects that go away in mid-flight: regions, QPs, peers. Nothing is accessed afterwards, nothing
//! hangs, and every waiter is notified.

use crate::sim::{A, B, Hand, Pair, Setup, pattern, to_state};
use roce_stack::{Access, DropReason, QpKind, QpState, SendOp, WcStatus};
use roce_wire::{ExtHeaders, Ieth, NakCode, Opcode, PathMtu, Syndrome};

/// A region is deregistered during a WRITE into it: the rest is refused.
// shows: 9.7.4.1-rkey-gone, 10.6.4-deregister
// trap: teardown
#[test]
fn deregistering_stops_a_write_in_the_middle() {
    let mut pair = Pair::new(Setup::default());
    let len = 512 << 10;
    let from = pair.mem(A, len);
    let to = pair.mem(B, len);
    from.write(0, &pattern(1, len));
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
    let arrived = |pair: &Pair| {
        pair.nodes[B]
            .nic
            .counters()
            .stat(roce_stack::Stat::RxPackets)
    };
    pair.run_until(|pair| arrived(pair) >= 100);
    assert!(pair.nodes[B].nic.deregister(to.key));
    let so_far = to.read(0, len);
    pair.run();
    pair.assert_sent_as(A, &[(1, WcStatus::RemoteAccessError)]);
    assert!(to.read(0, len) == so_far, "written after deregistration");
    assert!(so_far != pattern(1, len), "it was not over yet");
}

/// A region is deregistered during the response to a READ of it: a NAK follows instead of the rest
/// (9.7.4.1.5).
// shows: 9.7.4.1-rkey-gone, 9.9.3-region-goes, 10.6.4-deregister
// trap: teardown
#[test]
fn deregistering_stops_a_read_in_the_middle() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(4096);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 4096), &[]);
    hand.node.port.max_queued = 3;
    assert_eq!(hand.out().len(), 3);
    assert!(hand.node.nic.deregister(mem.key));
    let nak = hand.out_one();
    let refused = Syndrome::Nak(NakCode::RemoteAccessError);
    assert_eq!((nak.psn(), nak.syndrome()), (first + 3, Some(refused)));
    assert_eq!(hand.state(), QpState::Err);
}

/// The same for a READ that is retransmitted meanwhile. If it had a complete response before, that
/// may have reached the peer, which may have gone on to invalidate the key: then the second
/// response is moot, and no error.
// shows: 9.7.5.1.3-duplicate-read-checked, 9.9.3-region-goes
// trap: teardown
#[test]
fn a_key_may_go_before_a_second_answer_but_not_before_the_first() {
    for sent_before in [2, 3] {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(768);
        let first = hand.psn;
        let read = mem.reth(0, 768);
        hand.post_recv(1, &[]);
        hand.request(Opcode::RC_READ_REQUEST, read, &[]);
        hand.node.port.max_queued = sent_before;
        assert_eq!(hand.out().len(), sent_before);
        let bth = hand.bth(Opcode::RC_READ_REQUEST, first);
        hand.deliver(bth, read, &[]);
        hand.psn = first + 3;
        let key = ExtHeaders {
            ieth: Some(Ieth(mem.key)),
            ..ExtHeaders::NONE
        };
        hand.request(Opcode::RC_SEND_ONLY_WITH_INVALIDATE, key, &[]);
        let answer = hand.out_one();
        if sent_before == 3 {
            assert!(matches!(answer.syndrome(), Some(Syndrome::Ack(_))));
            assert_eq!((answer.psn(), hand.state()), (first + 3, QpState::Rts));
            assert_eq!(hand.drops(DropReason::StaleDuplicate), 1);
        } else {
            let refused = Syndrome::Nak(NakCode::RemoteAccessError);
            assert_eq!(answer.syndrome(), Some(refused));
            assert_eq!((answer.psn(), hand.state()), (first, QpState::Err));
        }
    }
}

/// The source of a SEND, or the target of a READ, is deregistered before its turn.
// shows: 10.6.3-lkey, 10.6.4-deregister
#[test]
fn deregistering_local_memory_fails_the_request() {
    for read in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let len = 512 << 10;
        let local = pair.mem(A, len);
        let remote = pair.mem(B, len);
        let op = if read {
            SendOp::Read(remote.remote(0))
        } else {
            SendOp::Write(remote.remote(0))
        };
        pair.post(A, 1, op, &[local.sge(0, len)]);
        pair.step();
        assert!(pair.nodes[A].nic.deregister(local.key));
        pair.run();
        pair.assert_sent_as(A, &[(1, WcStatus::LocalProtectionError)]);
    }
}

/// A READ that is retransmitted after its region has gone is not answered from memory.
// shows: 9.7.5.1.3-duplicate-read-checked
#[test]
fn a_duplicate_read_of_a_deregistered_region_reads_nothing() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    hand.out_one();
    assert!(hand.node.nic.deregister(mem.key));
    let bth = hand.bth(Opcode::RC_READ_REQUEST, first);
    hand.deliver(bth, mem.reth(0, 8), &[]);
    assert!(hand.out().is_empty());
    assert_eq!(hand.drops(DropReason::StaleDuplicate), 1);
    assert_eq!(hand.state(), QpState::Rts);
}

/// A destroyed QP answers nothing; its peer uses up its retries. The NIC's timers and turns of the
/// destroyed QP are harmless.
// shows: 11.2.5.4-destroy
// trap: teardown
#[test]
fn a_qp_can_be_destroyed_in_mid_flight() {
    const LEN: usize = 1 << 20;
    for side in [A, B] {
        let mut pair = Pair::new(Setup::default());
        let mem = [pair.mem(A, LEN), pair.mem(B, LEN)];
        for side in [A, B] {
            pair.post_recv(side, 7, &[]);
            let write = SendOp::Write(mem[1 - side].remote(0));
            pair.post(side, 1, write, &[mem[side].sge(0, LEN)]);
            let read = SendOp::Read(mem[1 - side].remote(0));
            pair.post(side, 2, read, &[mem[side].sge(0, LEN)]);
        }
        for _ in 0..3 {
            pair.step();
        }
        let node = &mut pair.nodes[side];
        assert!(node.nic.destroy_qp(node.qpn));
        assert!(!node.nic.destroy_qp(node.qpn));
        assert!(node.nic.query_qp(node.qpn).is_none());
        pair.run();
        assert!(
            pair.nodes[side].sent().is_empty(),
            "the completions of the QP were dropped"
        );
        let expected = [
            (1, WcStatus::RetryExceeded),
            (2, WcStatus::WorkRequestFlushed),
        ];
        pair.assert_sent_as(1 - side, &expected);
        assert!(pair.nodes[side].nic.counters().drops(DropReason::UnknownQp) > 0);
        assert!(pair.nodes[side].nic.next_timeout().is_none());
    }
}

/// A QP that is reset in mid-flight forgets everything; earlier packets change nothing.
// shows: 10.3.1-reset-clears
#[test]
fn a_qp_can_be_reset_in_mid_flight() {
    let mut pair = Pair::new(Setup::default());
    let len = 65536;
    let from = pair.mem(A, len);
    let to = pair.mem(B, len);
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
    pair.post(A, 2, SendOp::Read(to.remote(0)), &[from.sge(0, len)]);
    pair.post_recv(A, 3, &[]);
    pair.step();
    pair.modify(A, &to_state(QpState::Reset));
    pair.run();
    assert!(pair.nodes[A].sent().is_empty() && pair.nodes[A].received().is_empty());
    assert!(pair.nodes[A].nic.next_timeout().is_none());
    assert!(!pair.nodes[A].nic.wants_to_send());
}

/// The peer's QP fails by itself: the local one gets no more answers, and ends in bounded time.
// shows: 9.9.2-retry-exceeded
#[test]
fn a_peer_in_the_error_state_is_found_out() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 65536);
    let to = pair.mem(B, 65536);
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, 65536)]);
    pair.post(A, 2, SendOp::Send, &[from.sge(0, 8)]);
    pair.pump();
    pair.modify(B, &to_state(QpState::Err));
    pair.run();
    let expected = [
        (1, WcStatus::RetryExceeded),
        (2, WcStatus::WorkRequestFlushed),
    ];
    pair.assert_sent_as(A, &expected);
}

/// After a peer has invalidated a region, its owner can still use it.
#[test]
fn an_invalidated_region_is_still_its_owners() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 64);
    let victim = pair.mem(B, 64);
    pair.post_recv(B, 1, &[]);
    pair.post_recv(B, 2, &[victim.sge(0, 8)]);
    mem.write(0, &[4; 8]);
    pair.post(A, 1, SendOp::SendInvalidate(victim.key), &[]);
    pair.post(A, 2, SendOp::Send, &[mem.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1, 2]);
    assert_eq!(victim.read(0, 8), [4; 8]);
}

/// Messages to one QP are not affected when another QP of the NIC fails.
#[test]
fn a_failure_of_one_qp_does_not_touch_another() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.node.mem_with(64, Access::ANY_MEMORY);
    let other = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
    let first = hand.node.qpn;
    hand.node.qpn = other;
    hand.advance_to(QpState::Rts);
    hand.request(Opcode::RC_SEND_LAST, ExtHeaders::NONE, &[1]);
    assert_eq!(hand.state(), QpState::Err);
    hand.node.qpn = first;
    hand.psn = hand.setup.psn[1];
    assert_eq!(hand.state(), QpState::Rts);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[6; 8]);
    assert_eq!(mem.read(0, 8), [6; 8]);
    assert_eq!(hand.out().len(), 2, "the other's NAK, this one's ACK");
}

/// The timer of a QP is removed with it, and is not mistaken for that of another QP in its slot.
#[test]
fn a_timer_goes_with_its_qp() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 64)]);
    hand.out();
    assert_eq!(hand.node.nic.usage().timers, 1);
    assert!(hand.node.nic.destroy_qp(hand.node.qpn));
    assert_eq!(hand.node.nic.usage().timers, 0);
    assert_eq!(hand.node.nic.next_timeout(), None);
}
