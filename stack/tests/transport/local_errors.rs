//! Errors in an end's own memory or requests, and their effects at both ends (IBTA 1.7, 9.9.3 and
//! 11.6.2).

use crate::errors::remote_operations;
use crate::sim::{A, B, Pair, Setup, pattern, to_state};
use roce_stack::WcStatus::{
    LocalLengthError, LocalProtectionError, RemoteInvalidRequest, RemoteOperationError, Success,
    WorkRequestFlushed,
};
use roce_stack::{Access, PostError, QpState, SendOp, SendRequest, Sge};

/// A receive that is too small: local length error at the responder, invalid request at the
/// requester (9.9.3). No byte beyond its end is written.
// shows: 9.7.4.1-longest-send, 9.9.3-too-small
#[test]
fn a_receive_that_is_too_small_is_a_length_error() {
    for (len, room) in [(1, 0), (9, 8), (1025, 1024), (5000, 1500), (5000, 4999)] {
        let mut pair = Pair::new(Setup::default());
        let from = pair.mem(A, len);
        let to = pair.mem(B, 8192);
        from.write(0, &vec![1; len]);
        pair.post_recv(
            B,
            7,
            &[to.sge(0, room / 2), to.sge(room / 2, room - room / 2)],
        );
        pair.post_recv(B, 8, &[to.sge(4096, 4096)]);
        pair.post(A, 1, SendOp::Send, &[from.sge(0, len)]);
        pair.post(A, 2, SendOp::Send, &[from.sge(0, len)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, RemoteInvalidRequest), (2, WorkRequestFlushed)]);
        pair.assert_received_as(B, &[(7, LocalLengthError), (8, WorkRequestFlushed)]);
        assert!(to.read(room, 8192 - room).iter().all(|b| *b == 0));
    }
}

/// A receive whose memory may not be written: local protection error at the responder, remote
/// operation error at the requester (9.9.3).
// shows: 9.7.5.2-operation-nak, 9.9.3-receive-protection, 10.6.3-lkey, 10.6.3-local-write
#[test]
fn a_receive_with_a_bad_key_is_a_protection_error() {
    let bad: [fn(&mut Pair) -> Sge; 4] = [
        |pair| Sge {
            lkey: 0,
            ..pair.mem(B, 8).sge(0, 8)
        },
        |pair| pair.nodes[B].mem_with(8, Access::empty()).sge(0, 8),
        |pair| {
            let sge = pair.mem(B, 8).sge(0, 8);
            Sge {
                addr: sge.addr + 1,
                ..sge
            }
        },
        |pair| Sge {
            addr: u64::MAX - 3,
            ..pair.mem(B, 8).sge(0, 8)
        },
    ];
    for bad in bad {
        let mut pair = Pair::new(Setup::default());
        let from = pair.mem(A, 16);
        let good = pair.mem(B, 8);
        let bad = bad(&mut pair);
        pair.post_recv(B, 7, &[good.sge(0, 8), bad]);
        pair.post(A, 1, SendOp::Send, &[from.sge(0, 16)]);
        from.write(0, &[1; 16]);
        pair.run();
        pair.assert_sent_as(A, &[(1, RemoteOperationError)]);
        pair.assert_received_as(B, &[(7, LocalProtectionError)]);
    }
}

/// A request whose own memory may not be read fails when its turn comes: earlier requests complete
/// first, later ones are flushed.
// shows: 9.9.2-local-protection, 9.9.2-local-first, 10.6.3-lkey
#[test]
fn a_send_with_a_bad_key_fails_after_what_precedes_it() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 8192);
    let to = pair.mem(B, 8192);
    from.write(0, &pattern(1, 8192));
    let bad = Sge {
        lkey: from.key ^ 1,
        ..from.sge(0, 8)
    };
    let write = SendOp::Write(to.remote(0));
    pair.post(A, 1, write, &[from.sge(0, 8192)]);
    pair.post(A, 2, SendOp::Read(to.remote(0)), &[from.sge(0, 16)]);
    pair.post(A, 3, write, &[bad]);
    pair.post(A, 4, write, &[from.sge(0, 8)]);
    pair.run();
    let expected = [
        (1, Success),
        (2, Success),
        (3, LocalProtectionError),
        (4, WorkRequestFlushed),
    ];
    pair.assert_sent_as(A, &expected);
    assert!(to.read(0, 8192) == pattern(1, 8192));
    assert_eq!(pair.state(B), QpState::Rts, "the peer is not to blame");
}

/// The same in mid-message: the second element is bad.
// shows: 9.9.2-local-protection
#[test]
fn a_bad_element_in_mid_message_fails_the_request() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 4096);
    let to = pair.mem(B, 8192);
    let bad = Sge {
        length: 4097,
        ..from.sge(0, 0)
    };
    let write = SendOp::Write(to.remote(0));
    pair.post(A, 1, write, &[from.sge(0, 2048), bad]);
    pair.run();
    pair.assert_sent_as(A, &[(1, LocalProtectionError)]);
}

/// The memory for the result of a READ or atomic may not be written: local protection error.
// shows: 9.9.2-fetch-protection, 10.6.3-local-write
#[test]
fn a_fetch_into_bad_memory_is_a_local_protection_error() {
    for n in 2..5 {
        let mut pair = Pair::new(Setup::default());
        let local = pair.nodes[A].mem_with(8, Access::empty());
        let remote = pair.mem(B, 8);
        let op = remote_operations(remote.remote(0))[n];
        pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
        pair.post(A, 2, op, &[local.sge(0, 8)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, Success), (2, LocalProtectionError)]);
        assert_eq!(local.word(0), 0);
    }
}

/// Invalid requests are refused when they are posted, and leave the QP unchanged.
// shows: 10.7.3-elements, 10.7.3-atomic-length, 10.7.3-no-reads, 10.8.2-refused-nothing
#[test]
fn illegal_requests_are_refused_at_once() {
    let mut pair = Pair::new(Setup {
        rd_atomic: 0,
        ..Setup::default()
    });
    let mem = pair.mem(A, 64);
    let sge = mem.sge(0, 8);
    let remote = mem.remote(0);
    let add = SendOp::FetchAdd { remote, add: 1 };
    let cases: [(SendOp, &[Sge], PostError); 5] = [
        (
            SendOp::Send,
            &[sge; 5],
            PostError::TooManySges { given: 5, max: 4 },
        ),
        (add, &[mem.sge(0, 7)], PostError::AtomicLength { bytes: 7 }),
        (add, &[mem.sge(0, 9)], PostError::AtomicLength { bytes: 9 }),
        (add, &[sge], PostError::NoReadsAllowed),
        (SendOp::Read(remote), &[sge], PostError::NoReadsAllowed),
    ];
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    for (op, sges, error) in cases {
        let wr = SendRequest::new(0, op, sges);
        assert_eq!(node.nic.post_send(now, node.qpn, &wr), Err(error));
    }
    pair.run();
    pair.assert_sent(A, &[]);
    assert_eq!(pair.state(A), QpState::Rts);
}

/// A full queue accepts no request; completions make room.
// shows: 11.2.5.1-depths, 10.8.5-unsignaled-frees
#[test]
fn a_full_queue_is_told() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(A, 8);
    let target = pair.mem(B, 8);
    let depth = pair.setup.queue.depth;
    let wr = SendRequest::new(0, SendOp::Write(target.remote(0)), mem.sge(0, 8));
    for _ in 0..2 {
        let (now, node) = (pair.now, &mut pair.nodes[A]);
        for _ in 0..depth {
            assert_eq!(node.nic.post_send(now, node.qpn, &wr), Ok(()));
        }
        let full = Err(PostError::QueueFull { depth });
        assert_eq!(node.nic.post_send(now, node.qpn, &wr), full);
        pair.run();
        assert_eq!(pair.nodes[A].sent().len(), depth);
    }
    pair.modify(A, &to_state(QpState::Err));
}
