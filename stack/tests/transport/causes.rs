//! Why QPs fail: the cause that each end names, with its numbers.

use crate::sim::{A, B, Fate, Pair, Setup, to_state};
use roce_observe::InWords;
use roce_stack::{
    Access, AccessError, BindError, Cause, DeniedAccess, Failure, MwBind, MwType, QpKind, QpState,
    RemoteAddr, SendFlags, SendOp, Stat, WcStatus,
};
use roce_wire::PathMtu;
use std::collections::BTreeSet;

fn failure(pair: &Pair, side: usize) -> Failure {
    let node = &pair.nodes[side];
    let known = node.nic.failure(node.qpn);
    *known.unwrap_or_else(|| panic!("side {side} has not failed"))
}

/// Runs one operation of A on memory that `target` makes at B, and returns both failures.
fn refused(
    setup: Setup,
    len: usize,
    op: impl Fn(RemoteAddr) -> SendOp,
    target: impl Fn(&mut Pair) -> RemoteAddr,
) -> [Failure; 2] {
    let mut pair = Pair::new(setup);
    let local = pair.mem(A, 64);
    let remote = target(&mut pair);
    pair.post(A, 1, op(remote), &[local.sge(0, len)]);
    pair.run();
    [failure(&pair, A), failure(&pair, B)]
}

#[test]
fn a_write_beyond_a_region_is_told_by_how_many_bytes() {
    let [own, peer] = refused(Setup::default(), 8, SendOp::Write, |pair| {
        pair.mem(B, 64).remote(60)
    });
    assert_eq!(own.status, Some(WcStatus::RemoteAccessError));
    assert!(matches!(own.cause, Cause::RefusedAccess { .. }), "{own:?}");
    let request = own.request.expect("a request");
    assert_eq!((request.wr_id, request.len), (1, 8));
    let Cause::PeerAccess { denied, .. } = peer.cause else {
        panic!("{peer:?}");
    };
    assert_eq!(denied.error, AccessError::OutOfBounds);
    assert_eq!(peer.status, None, "an event reports it");
    let text = InWords(&peer.cause).to_string();
    assert!(
        text.ends_with("the access ends 4 bytes past its end"),
        "{text}"
    );
}

#[test]
fn an_access_before_or_behind_a_region_is_told_by_how_many_bytes() {
    for (offset, words) in [
        (-9, "begins 9 bytes before it"),
        (64, "begins at its end"),
        (65, "begins 1 byte past its end"),
    ] {
        let [_, peer] = refused(Setup::default(), 8, SendOp::Read, |pair| {
            let mut remote = pair.mem(B, 64).remote(0);
            remote.addr = remote.addr.wrapping_add_signed(offset);
            remote
        });
        let text = InWords(&peer.cause).to_string();
        assert!(text.ends_with(words), "{text}");
    }
}

#[test]
fn a_missing_right_is_named_with_those_that_are_there() {
    let [_, peer] = refused(Setup::default(), 8, SendOp::Write, |pair| {
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        pair.nodes[B].mem_with(64, access).remote(0)
    });
    let text = InWords(&peer.cause).to_string();
    let expected = "lacks IBV_ACCESS_REMOTE_WRITE; it has IBV_ACCESS_LOCAL_WRITE | \
                    IBV_ACCESS_REMOTE_READ";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_unknown_key_is_named() {
    let [_, peer] = refused(Setup::default(), 8, SendOp::Write, |pair| {
        let mut remote = pair.mem(B, 64).remote(0);
        remote.rkey ^= 1;
        remote
    });
    let Cause::PeerAccess { denied, .. } = peer.cause else {
        panic!("{peer:?}");
    };
    assert_eq!((denied.error, denied.region), (AccessError::BadKey, None));
}

#[test]
fn a_right_that_the_qp_lacks_is_told_from_one_of_the_region() {
    let setup = Setup {
        access: Access::REMOTE_READ,
        ..Setup::default()
    };
    let [own, peer] = refused(setup, 8, SendOp::Write, |pair| pair.mem(B, 64).remote(0));
    assert!(matches!(own.cause, Cause::RefusedInvalid { .. }), "{own:?}");
    let right = Access::REMOTE_WRITE;
    assert!(
        matches!(peer.cause, Cause::PeerRight { right: named, .. } if named == right),
        "{peer:?}"
    );
}

#[test]
fn an_atomic_at_an_odd_address() {
    let add = |remote| SendOp::FetchAdd { remote, add: 1 };
    let [_, peer] = refused(Setup::default(), 8, add, |pair| pair.mem(B, 64).remote(4));
    assert!(matches!(peer.cause, Cause::Misaligned { .. }), "{peer:?}");
}

#[test]
fn more_reads_than_the_peer_allows() {
    let setup = Setup {
        rd_atomic: 4,
        dest_rd_atomic: 1,
        ..Setup::default()
    };
    let mut pair = Pair::new(setup);
    let (local, remote) = (pair.mem(A, 4096), pair.mem(B, 4096));
    for wr_id in 0..4 {
        pair.post(
            A,
            wr_id,
            SendOp::Read(remote.remote(0)),
            &[local.sge(0, 4096)],
        );
    }
    pair.run();
    assert_eq!(failure(&pair, B).cause, Cause::TooManyFetches { limit: 1 });
}

#[test]
fn a_message_longer_than_its_receive() {
    let mut pair = Pair::new(Setup::default());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post_recv(B, 7, &[remote.sge(0, 16)]);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 17)]);
    pair.run();
    let peer = failure(&pair, B);
    let cause = Cause::MessageTooLong {
        arrived: 17,
        receive: 16,
    };
    assert_eq!(
        (peer.cause, peer.status),
        (cause, Some(WcStatus::LocalLengthError))
    );
}

#[test]
fn the_element_at_fault_is_named() {
    let mut pair = Pair::new(Setup::default());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    let mut wrong = local.sge(32, 8);
    wrong.lkey ^= 1;
    let op = SendOp::Write(remote.remote(0));
    pair.post(A, 1, op, &[local.sge(0, 8), local.sge(8, 8), wrong]);
    pair.run();
    let own = failure(&pair, A);
    let Cause::RequestMemory { element, denied } = own.cause else {
        panic!("{own:?}");
    };
    assert_eq!(
        (element, denied.error, denied.len),
        (2, AccessError::BadKey, 8)
    );
    assert_eq!(own.status, Some(WcStatus::LocalProtectionError));
}

#[test]
fn memory_of_a_receive_and_of_a_read_without_local_write() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 64);
    let read_only = pair.nodes[B].mem_with(64, Access::empty());
    pair.post_recv(B, 7, &[read_only.sge(0, 16)]);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 8)]);
    pair.run();
    let peer = failure(&pair, B);
    let text = InWords(&peer.cause).to_string();
    assert!(
        matches!(peer.cause, Cause::ReceiveMemory { element: 0, .. }),
        "{peer:?}"
    );
    assert!(text.contains("lacks IBV_ACCESS_LOCAL_WRITE"), "{text}");
    assert!(matches!(
        failure(&pair, A).cause,
        Cause::RefusedOperation { .. }
    ));

    let mut pair = Pair::new(Setup::default());
    let read_only = pair.nodes[A].mem_with(64, Access::empty());
    let remote = pair.mem(B, 64);
    pair.post(
        A,
        1,
        SendOp::Read(remote.remote(0)),
        &[read_only.sge(0, 16)],
    );
    pair.run();
    let own = failure(&pair, A);
    let text = InWords(&own.cause).to_string();
    assert!(
        matches!(own.cause, Cause::RequestMemory { element: 0, .. }),
        "{own:?}"
    );
    assert!(text.contains("lacks IBV_ACCESS_LOCAL_WRITE"), "{text}");
}

#[test]
fn a_peer_that_never_answered_is_told_from_one_that_has_stopped() {
    for answers_first in [false, true] {
        let setup = Setup {
            retry_cnt: 2,
            ..Setup::default()
        };
        let mut pair = Pair::new(setup);
        let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
        let op = SendOp::Write(remote.remote(0));
        if answers_first {
            pair.post(A, 1, op, &[local.sge(0, 8)]);
            pair.run();
        }
        pair.links[A].faults.drop = 10_000;
        pair.post(A, 2, op, &[local.sge(0, 8)]);
        pair.run();
        let own = failure(&pair, A);
        assert_eq!(own.status, Some(WcStatus::RetryExceeded));
        let Cause::NoAnswer {
            retries,
            ever_answered,
            ..
        } = own.cause
        else {
            panic!("{own:?}");
        };
        assert_eq!((retries, ever_answered), (2, answers_first));
    }
}

#[test]
fn a_peer_without_receives() {
    let setup = Setup {
        rnr_retry: 3,
        ..Setup::default()
    };
    let mut pair = Pair::new(setup);
    let local = pair.mem(A, 64);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 8)]);
    pair.run();
    let own = failure(&pair, A);
    let Cause::ReceiverNotReady { retries, wait, .. } = own.cause else {
        panic!("{own:?}");
    };
    assert_eq!((retries, wait.as_micros()), (3, 10));
}

#[test]
fn different_path_mtus() {
    let mut pair = Pair::unconnected(Setup::default());
    pair.connect(A);
    pair.setup.mtu = PathMtu::Mtu2048;
    pair.connect(B);
    let (local, remote) = (pair.mem(A, 4096), pair.mem(B, 4096));
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 4096)]);
    pair.run();
    let peer = failure(&pair, B);
    assert!(
        matches!(
            peer.cause,
            Cause::WrongLength {
                len: 1024,
                mtu: 2048,
                ..
            }
        ),
        "{peer:?}"
    );
}

#[test]
fn a_window_that_can_not_be_bound() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.nodes[A].mem_with(64, Access::LOCAL_WRITE);
    let node = &mut pair.nodes[A];
    let window = node.nic.alloc_mw(node.pd, MwType::Type2).expect("a window");
    let bind = MwBind {
        window,
        key: 1,
        lkey: mem.sge(0, 1).lkey,
        addr: mem.addr(),
        len: 8,
        access: Access::REMOTE_WRITE,
        zero_based: false,
    };
    pair.post(A, 1, SendOp::BindMw(bind), &[]);
    pair.run();
    assert_eq!(failure(&pair, A).cause, Cause::Bind(BindError::NoBindRight));
}

#[test]
fn an_overrun_names_the_cq_and_its_size() {
    let setup = Setup {
        cq_entries: 2,
        ..Setup::default()
    };
    let mut pair = Pair::new(setup);
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    for wr_id in 0..3 {
        pair.post(
            A,
            wr_id,
            SendOp::Write(remote.remote(0)),
            &[local.sge(0, 8)],
        );
    }
    pair.run();
    let own = failure(&pair, A);
    assert!(
        matches!(own.cause, Cause::CqOverrun { capacity: 2, .. }),
        "{own:?}"
    );
}

/// The cause stays until the QP is reset, and what follows does not replace it.
#[test]
fn the_first_cause_stays_until_the_qp_is_reset() {
    let setup = Setup {
        rnr_retry: 0,
        ..Setup::default()
    };
    let mut pair = Pair::new(setup);
    let local = pair.mem(A, 64);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 8)]);
    pair.run();
    let first = failure(&pair, A);
    pair.post_with(A, 2, SendOp::Send, &[local.sge(0, 8)], SendFlags::SIGNALED);
    pair.modify(A, &to_state(QpState::Err));
    assert_eq!(failure(&pair, A), first);
    let node = &mut pair.nodes[A];
    assert_eq!(node.nic.poll_failure(), Some(first));
    assert_eq!(node.nic.poll_failure(), None);
    pair.modify(A, &to_state(QpState::Reset));
    let node = &pair.nodes[A];
    assert_eq!(node.nic.failure(node.qpn), None);
}

#[test]
fn an_application_that_moves_its_qp_to_the_error_state() {
    let mut pair = Pair::new(Setup::default());
    pair.modify(A, &to_state(QpState::Err));
    let own = failure(&pair, A);
    assert_eq!(
        (own.cause, own.status, own.request),
        (Cause::Application, None, None)
    );
}

/// Each kind of cause, and each way in which it occurs, has a number of its own.
#[test]
fn codes_differ() {
    let errors = [
        AccessError::BadKey,
        AccessError::WrongPd,
        AccessError::WrongQp,
        AccessError::Denied,
        AccessError::WindowsBound,
        AccessError::OutOfBounds,
        AccessError::Fault,
    ];
    let denied = errors.map(|error| DeniedAccess {
        error,
        key: 1,
        addr: 0,
        len: 1,
        rights: Access::REMOTE_READ,
        region: None,
    });
    let codes = |denied: &DeniedAccess| Cause::one_of_each(*denied).into_iter().map(|it| it.code());
    let of_one: Vec<u32> = codes(&denied[0]).collect();
    let different: BTreeSet<u32> = denied.iter().flat_map(codes).collect();
    assert!(!different.contains(&0));
    // Five kinds name why access to memory was denied.
    assert_eq!(different.len(), of_one.len() + 5 * (denied.len() - 1));
}

/// A peer that answers "not ready" and then ends has answered.
#[test]
fn a_peer_that_was_not_ready_and_is_gone_has_answered() {
    let mut pair = Pair::new(Setup {
        retry_cnt: 1,
        ..Setup::default()
    });
    let local = pair.mem(A, 64);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 8)]);
    pair.run_until(|pair| pair.nodes[A].nic.counters().stat(Stat::RnrNaksReceived) > 0);
    pair.links[A].faults.drop = 10_000;
    pair.run();
    let own = failure(&pair, A);
    assert!(
        matches!(
            own.cause,
            Cause::NoAnswer {
                ever_answered: true,
                ..
            }
        ),
        "{own:?}"
    );
}

/// A request behind a gap is denied and only dropped. What fails the QP later is named, not that.
#[test]
fn a_kept_request_that_is_denied_is_not_the_cause_of_a_later_failure() {
    let mut pair = Pair::new(Setup::default());
    let (local, target) = (pair.mem(A, 64), pair.mem(B, 64));
    let mut wrong = target.remote(0);
    wrong.rkey ^= 1;
    // The first packet is lost, and the second one, which is kept, is denied in its turn.
    pair.links[A].hit(&[0], Fate::Drop, |_| true);
    pair.post(A, 1, SendOp::Write(target.remote(0)), &[local.sge(0, 8)]);
    pair.post(A, 2, SendOp::Write(wrong), &[local.sge(0, 8)]);
    pair.run();
    // It arrived again, in order, and was refused.
    let peer = failure(&pair, B);
    let Cause::PeerAccess { denied, .. } = peer.cause else {
        panic!("{peer:?}");
    };
    assert_eq!(denied.key, wrong.rkey);
    pair.assert_sent_as(
        A,
        &[(1, WcStatus::Success), (2, WcStatus::RemoteAccessError)],
    );
}

/// A send queue that failed alone can be used again, and its next failure is a new one.
#[test]
fn a_send_queue_that_recovers_can_fail_again() {
    let setup = Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    };
    let mut pair = Pair::new(setup);
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    let op = SendOp::Write(remote.remote(0));
    for wr_id in [1, 2] {
        let mut wrong = local.sge(0, 8);
        wrong.lkey ^= 1;
        pair.post(A, wr_id, op, &[wrong]);
        pair.run();
        assert_eq!(pair.state(A), QpState::Sqe);
        let own = failure(&pair, A);
        assert_eq!(own.request.map(|request| request.wr_id), Some(wr_id));
        pair.modify(A, &to_state(QpState::Rts));
        let node = &pair.nodes[A];
        assert_eq!(node.nic.failure(node.qpn), None);
    }
}
