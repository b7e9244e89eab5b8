//! Errors, and the status that each end gets (IBTA 1.7, 9.9 and 11.6.2).

use crate::sim::pair::assert_outcomes;
use crate::sim::{A, B, Hand, Mem, Pair, Setup};
use roce_stack::WcStatus::{
    LocalAccessError, LocalLengthError, RemoteAccessError, RemoteInvalidRequest,
    RemoteOperationError, RetryExceeded, Success, WorkRequestFlushed,
};
use roce_stack::{Access, Event, Memory, QpState, RemoteAddr, Reregister, SendOp, WcStatus};
use roce_wire::{ExtHeaders, NakCode, Opcode, Syndrome};
use std::sync::Arc;

/// The operations that need rights at the peer, on 8 bytes of `remote`.
pub(crate) fn remote_operations(remote: RemoteAddr) -> [SendOp; 5] {
    [
        SendOp::Write(remote),
        SendOp::WriteImm(remote, 1),
        SendOp::Read(remote),
        SendOp::CompareSwap {
            remote,
            compare: 0,
            swap: 1,
        },
        SendOp::FetchAdd { remote, add: 1 },
    ]
}

/// Runs each remote operation on the address that `target` makes of a buffer of 64 bytes at B. Each
/// must fail with `status` at A, leave B's QP in ERR with its receives completed, and the buffer
/// unchanged.
fn each_is_refused(
    setup: Setup,
    status: WcStatus,
    target: impl Fn(&mut Pair) -> (RemoteAddr, Mem),
) {
    for n in 0..5 {
        let mut pair = Pair::new(setup);
        let local = pair.mem(A, 64);
        let (remote, mem) = target(&mut pair);
        let op = remote_operations(remote)[n];
        local.write(0, &[0x55; 64]);
        pair.post_recv(B, 7, &[]);
        pair.post_recv(B, 8, &[]);
        pair.post(A, 1, SendOp::SendImm(3), &[local.sge(0, 0)]);
        pair.post(A, 2, op, &[local.sge(0, 8)]);
        pair.post(A, 3, SendOp::Send, &[local.sge(0, 0)]);
        pair.run();
        let expected = [(1, Success), (2, status), (3, WorkRequestFlushed)];
        pair.assert_sent_as(A, &expected);
        // The receive of a WRITE that was denied has that status (11.6.2); others are flushed.
        let receive = match (op, status) {
            (SendOp::WriteImm(..), RemoteAccessError) => LocalAccessError,
            _ => WorkRequestFlushed,
        };
        pair.assert_received_as(B, &[(7, Success), (8, receive)]);
        assert_eq!(mem.read(0, 64), [0; 64], "{op:?}");
        assert_eq!(local.read(0, 64), [0x55; 64], "{op:?}");
        assert_eq!([A, B].map(|side| pair.state(side)), [QpState::Err; 2]);
        // An event reports only what no completion reports (11.6.3.2).
        let theirs = pair.nodes[B].qpn;
        let told: &[Event] = match (receive, status) {
            (LocalAccessError, _) => &[],
            (_, RemoteAccessError) => &[Event::QpAccessError(theirs)],
            _ => &[Event::QpRequestError(theirs)],
        };
        assert_eq!(pair.nodes[A].events, [], "{op:?}");
        assert_eq!(pair.nodes[B].events, told, "{op:?}");
    }
}

// shows: 9.7.4.1-rkey, 9.7.5.2-access-nak, 9.9.2-remote-access, 9.9.3-denied-immediate
// shows: 9.9.3-responder-fails, 9.9.3-nak-leaves, 10.3.1-err-event, 11.6.3-not-twice
// shows: 11.6.3-access-violation
// trap: access-event
#[test]
fn a_wrong_rkey_is_a_remote_access_error() {
    each_is_refused(Setup::default(), RemoteAccessError, |pair| {
        let mem = pair.mem(B, 64);
        let mut remote = mem.remote(0);
        remote.rkey ^= 1;
        (remote, mem)
    });
}

// shows: 9.7.4.1-rkey-bounds
#[test]
fn out_of_bounds_is_a_remote_access_error() {
    for offset in [-8_i64, 64, 1 << 20, i64::MIN] {
        each_is_refused(Setup::default(), RemoteAccessError, |pair| {
            let mem = pair.mem(B, 64);
            let mut remote = mem.remote(0);
            remote.addr = remote.addr.wrapping_add_signed(offset);
            (remote, mem)
        });
    }
}

/// The sum of address and length wraps around to an address in the region.
// shows: 9.7.4.1-rkey-bounds
// trap: length-wraps
#[test]
fn an_address_that_wraps_is_a_remote_access_error() {
    each_is_refused(Setup::default(), RemoteAccessError, |pair| {
        let mem = pair.mem(B, 64);
        let from_zero = Memory::buffer(Arc::clone(&mem.buffer));
        let change = Reregister {
            memory: Some((from_zero, Some(0))),
            ..Reregister::default()
        };
        let changed = pair.nodes[B].nic.reregister(mem.key, change);
        changed.expect("a region at address 0");
        let remote = RemoteAddr {
            addr: u64::MAX - 7,
            rkey: mem.key,
        };
        (remote, mem)
    });
}

/// The request takes one receive. The others are flushed, whatever the peer retransmits and
/// whatever requests behind it have arrived.
// shows: 9.9.3-too-small, 10.3.1-err-silent
// trap: executed-in-err
#[test]
fn a_request_that_fails_the_qp_is_executed_once() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 1..=4 {
        hand.post_recv(wr_id, &[mem.sge(0, 4)]);
    }
    let send = |hand: &mut Hand, after: u32, len: usize| {
        let bth = hand.bth(Opcode::RC_SEND_ONLY, hand.psn + after);
        hand.deliver(bth, ExtHeaders::NONE, &vec![1; len]);
    };
    send(&mut hand, 1, 4);
    hand.out();
    for _ in 0..3 {
        send(&mut hand, 0, 8);
    }
    let flushed = |wr_id| (wr_id, WorkRequestFlushed);
    let expected = [(1, LocalLengthError), flushed(2), flushed(3), flushed(4)];
    assert_outcomes(&hand.node.received(), &expected);
    assert_eq!(mem.read(0, 64), [0; 64]);
    let invalid = Some(Syndrome::Nak(NakCode::InvalidRequest));
    assert_eq!(hand.out_one().syndrome(), invalid);
    assert_eq!(hand.state(), QpState::Err);
}

/// One byte beyond the end is as bad as a thousand; for WRITE it is detected at the first packet,
/// before anything is placed (9.7.4.1.5).
// shows: 9.7.4.1-whole-first
// trap: write-length
#[test]
fn a_long_message_is_checked_as_a_whole_before_anything_is_placed() {
    for write in [true, false] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 4097);
        let remote = pair.mem(B, 4096);
        local.write(0, &[1; 4097]);
        let op = if write {
            SendOp::Write(remote.remote(0))
        } else {
            SendOp::Read(remote.remote(0))
        };
        pair.post(A, 1, op, &[local.sge(0, 4097)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
        assert_eq!(remote.read(0, 4096), vec![0; 4096]);
        assert_eq!(local.read(0, 4097), vec![1; 4097]);
    }
}

// shows: 9.7.4.1-rkey-rights
#[test]
fn a_missing_right_is_a_remote_access_error() {
    each_is_refused(Setup::default(), RemoteAccessError, |pair| {
        let mem = pair.nodes[B].mem_with(64, Access::LOCAL_WRITE);
        (mem.remote(0), mem)
    });
}

/// Each right allows only its own operation.
// shows: 9.7.4.1-rkey-rights
#[test]
fn each_right_admits_its_own_operation() {
    let rights = [
        (Access::REMOTE_WRITE, [true, true, false, false, false]),
        (Access::REMOTE_READ, [false, false, true, false, false]),
        (Access::REMOTE_ATOMIC, [false, false, false, true, true]),
    ];
    for (access, admitted) in rights {
        for (n, admitted) in admitted.into_iter().enumerate() {
            // The region's rights, then the QP's.
            for by_region in [true, false] {
                let everything = Setup::default().access;
                let mut pair = Pair::new(Setup {
                    access: if by_region { everything } else { access },
                    ..Setup::default()
                });
                let region = if by_region { access } else { everything };
                let mem = pair.nodes[B].mem_with(64, region | Access::LOCAL_WRITE);
                let local = pair.mem(A, 8);
                pair.post_recv(B, 7, &[]);
                let op = remote_operations(mem.remote(0))[n];
                pair.post(A, 1, op, &[local.sge(0, 8)]);
                pair.run();
                let status = match (admitted, by_region) {
                    (true, _) => Success,
                    (false, true) => RemoteAccessError,
                    (false, false) => RemoteInvalidRequest,
                };
                pair.assert_sent_as(A, &[(1, status)]);
            }
        }
    }
}

// shows: 9.7.4.1-rkey-pd, 10.2.3-pd-remote
#[test]
fn a_region_of_another_pd_is_a_remote_access_error() {
    each_is_refused(Setup::default(), RemoteAccessError, |pair| {
        let node = &mut pair.nodes[B];
        let own = node.pd;
        node.pd = node.nic.alloc_pd();
        let mem = node.mem(64);
        node.pd = own;
        (mem.remote(0), mem)
    });
}

/// An operation that the QP does not allow is an invalid request (9.7.4.1.2).
// shows: 9.7.4.1.3-write-enabled, 9.7.4.1.3-read-enabled, 9.7.4.1.3-atomic-enabled
// shows: 9.7.5.2-invalid-nak
#[test]
fn an_operation_that_the_qp_does_not_allow_is_an_invalid_request() {
    let setup = Setup {
        access: Access::empty(),
        ..Setup::default()
    };
    each_is_refused(setup, RemoteInvalidRequest, |pair| {
        let mem = pair.mem(B, 64);
        (mem.remote(0), mem)
    });
}

// shows: 9.7.4.1-rkey-gone
#[test]
fn a_deregistered_region_is_a_remote_access_error() {
    each_is_refused(Setup::default(), RemoteAccessError, |pair| {
        let mem = pair.mem(B, 64);
        assert!(pair.nodes[B].nic.deregister(mem.key));
        assert!(!pair.nodes[B].nic.deregister(mem.key));
        (mem.remote(0), mem)
    });
}

/// An atomic's address must be a multiple of 8 (9.4.5).
// shows: 9.4.5-aligned
#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    for offset in [1, 4, 7] {
        for n in [3, 4] {
            let mut pair = Pair::new(Setup::default());
            let local = pair.mem(A, 8);
            let mem = pair.mem(B, 64);
            let op = remote_operations(mem.remote(offset))[n];
            pair.post(A, 1, op, &[local.sge(0, 8)]);
            pair.run();
            pair.assert_sent_as(A, &[(1, RemoteInvalidRequest)]);
            assert_eq!(mem.read(0, 64), [0; 64]);
        }
    }
}

/// A message of no bytes accesses no memory, so its key is not checked (9.7.4.1.5).
// shows: 9.7.2-no-bytes, 9.7.4.1-no-bytes-no-key
#[test]
fn a_message_of_no_bytes_needs_no_key() {
    let mut pair = Pair::new(Setup::default());
    let nowhere = RemoteAddr {
        addr: u64::MAX,
        rkey: 0,
    };
    pair.post_recv(B, 7, &[]);
    pair.post(A, 1, SendOp::Write(nowhere), &[]);
    pair.post(A, 2, SendOp::WriteImm(nowhere, 5), &[]);
    pair.post(A, 3, SendOp::Read(nowhere), &[]);
    pair.run();
    pair.assert_sent(A, &[1, 2, 3]);
    pair.assert_received(B, &[7]);
}

/// A SEND with invalidate that names a key it may not invalidate is an error of class J:
/// the responder's receive completes with it and the QP fails, but no NAK is sent. The
/// requester retries until it gives up.
// shows: 9.4.1.1-invalidate-refused, 9.4.1.1-invalidate-permission, 11.6.3-not-twice
#[test]
fn invalidating_a_key_that_may_not_be_is_an_error_without_a_nak() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 8);
    let victim = pair.nodes[B].mem_with(8, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    for wr_id in 6..9 {
        pair.post_recv(B, wr_id, &[]);
    }
    pair.post(A, 0, SendOp::Send, &[from.sge(0, 0)]);
    pair.post(A, 1, SendOp::SendInvalidate(victim.key), &[from.sge(0, 0)]);
    pair.post(A, 2, SendOp::Send, &[from.sge(0, 0)]);
    pair.run();
    let outcomes = [
        (6, Success),
        (7, RemoteInvalidRequest),
        (8, WorkRequestFlushed),
    ];
    pair.assert_received_as(B, &outcomes);
    assert_eq!(pair.state(B), QpState::Err);
    assert_eq!(pair.nodes[B].events, [], "the completion reports it");
    // Earlier requests are acknowledged, and nothing else.
    let answers = pair.links[B].count(|_| true);
    let acks = pair.links[B].count(|sent| {
        let syndrome = sent.ext.aeth.map(|aeth| aeth.syndrome);
        matches!(syndrome, Some(Syndrome::Ack(_)))
    });
    assert_eq!((answers, acks), (1, 1));
    let outcomes = [(0, Success), (1, RetryExceeded), (2, WorkRequestFlushed)];
    pair.assert_sent_as(A, &outcomes);
}

/// Each NAK code ends the request with its status, once, and acknowledges everything before it
/// (9.7.5.2).
// shows: 9.7.6.1-nak-acks, 9.9.2-remote-invalid, 9.9.2-remote-access, 9.9.2-remote-operation
// shows: 9.9.2-error-state, 10.3.1-err-once
#[test]
fn each_nak_code_has_its_status() {
    let codes = [
        (NakCode::InvalidRequest, RemoteInvalidRequest),
        (NakCode::RemoteAccessError, RemoteAccessError),
        (NakCode::RemoteOperationalError, RemoteOperationError),
    ];
    for (code, status) in codes {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(8);
        for wr_id in 1..=3 {
            hand.post(wr_id, SendOp::Send, &[mem.sge(0, 8)]);
        }
        let psns = hand.out_psns();
        hand.nak(psns[1], code);
        let done: Vec<_> = hand
            .node
            .sent()
            .iter()
            .map(|c| (c.wr_id, c.status))
            .collect();
        assert_eq!(done, [(1, Success), (2, status), (3, WorkRequestFlushed)]);
        hand.nak(psns[1], code);
        assert!(hand.node.sent().is_empty());
        assert!(hand.out().is_empty());
    }
}

/// A refused request is answered before the responder goes silent, after the answers to earlier
/// requests (9.7.5.1).
// shows: 9.7.5.2-refusal-behind, 9.9.3-nak-leaves
#[test]
fn a_refusal_is_sent_behind_earlier_answers() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    mem.write(0, &[5; 4096]);
    let first = hand.psn;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 2000), &[]);
    hand.psn += 1;
    hand.request(Opcode::RC_SEND_MIDDLE, ExtHeaders::NONE, &[0; 1024]);
    let out = hand.out();
    let psns: Vec<_> = out.iter().map(|o| o.psn()).collect();
    assert_eq!(psns, [first, first + 1, first + 2]);
    assert_eq!(out[1].payload, [5; 2000 - 1024]);
    assert_eq!(
        out[2].syndrome(),
        Some(Syndrome::Nak(NakCode::InvalidRequest))
    );
}
