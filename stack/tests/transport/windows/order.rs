//! When bindings and invalidations are executed among the other requests of a send queue (IBTA 1.7,
//! 10.8.3.3 and 10.6.5.1), and which keys peers may invalidate.

use super::{TYPES, bindable, through, whole, window};
use crate::sim::{A, B, Fate, Pair, Sent, Setup, pattern, to_state};
use roce_stack::WcStatus::{
    RemoteAccessError, RemoteInvalidRequest, RetryExceeded, Success, WorkRequestFlushed,
};
use roce_stack::{Event, MwBind, MwType, QpKind, QpState, SendFlags, SendOp, WcOpcode, WcStatus};
use roce_wire::{Opcode, Operation};

/// One packet each, for a link to drop.
const NTH: [&[usize]; 6] = [&[0], &[1], &[2], &[3], &[4], &[5]];

/// The typical use of windows: bind, send the key to the peer, get its SEND with invalidate when it
/// is done; many times with one window, each with another key.
// shows: 10.6.7-window-invalidate
#[test]
fn a_window_is_lent_and_given_back_in_order() {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 4096);
    let local = pair.mem(A, 4096);
    let id = window(&mut pair, MwType::Type2);
    for round in 0..20_u8 {
        let data = pattern(round.into(), 3000);
        local.write(0, &data);
        let bind = MwBind {
            key: round,
            ..whole(id, &mem, 0, 4096)
        };
        pair.post_recv(A, 1, &[]);
        pair.post_recv(B, 2, &[]);
        pair.post(B, 3, SendOp::BindMw(bind), &[]);
        pair.post(B, 4, SendOp::SendImm(id.rkey(round)), &[]);
        pair.run();
        pair.assert_sent(B, &[3, 4]);
        let rkey = pair.assert_received(A, &[1])[0].imm.expect("the key");
        assert_eq!(rkey, id.rkey(round));
        let write = SendOp::Write(through(&bind, &mem, 0));
        pair.post(A, 5, write, &[local.sge(0, 3000)]);
        pair.post(A, 6, SendOp::SendInvalidate(rkey), &[]);
        pair.run();
        pair.assert_sent(A, &[5, 6]);
        let received = pair.assert_received(B, &[2]);
        assert_eq!(received[0].invalidated_rkey, Some(rkey));
        assert!(mem.read(0, 3000) == data);
    }
    let stale = SendOp::Write(through(&whole(id, &mem, 0, 8), &mem, 0));
    pair.post(A, 7, stale, &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(7, RemoteAccessError)]);
}

/// Keys that a peer may not invalidate: of a window of type 1, of one of another QP, or of none.
// shows: 10.6.7-window-invalidate
#[test]
fn a_peer_invalidates_only_windows_of_its_own_connection() {
    for (kind, key, status) in [
        (MwType::Type2, 7, Success),
        (MwType::Type2, 8, RetryExceeded),
        (MwType::Type1, 7, RetryExceeded),
    ] {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.post_recv(B, 2, &[]);
        pair.run();
        let rkey = bind.window.rkey(key);
        pair.post(A, 1, SendOp::SendInvalidate(rkey), &[]);
        pair.run();
        pair.assert_sent_as(A, &[(1, status)]);
        let ours = match status {
            Success => Success,
            _ => RemoteInvalidRequest,
        };
        pair.assert_received_as(B, &[(2, ours)]);
        let free = pair.nodes[B].nic.deregister_unbound(mem.key).is_ok();
        assert_eq!(free, status == Success);
    }
}

/// An invalidation waits until all earlier requests have completed; later ones wait for it.
// shows: 10.6.7-window-order
#[test]
fn an_invalidation_waits_for_all_before_it() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 20_000);
    let local = pair.mem(A, 20_000);
    pair.post(B, 1, SendOp::Write(local.remote(0)), &[mem.sge(0, 20_000)]);
    pair.post(B, 2, SendOp::LocalInv(mem.key), &[]);
    pair.post(B, 3, SendOp::Write(local.remote(0)), &[mem.sge(0, 8)]);
    pair.pump();
    let sent = |pair: &Pair| pair.links[B].log.len();
    assert_eq!(sent(&pair), 20, "what is behind the invalidation waits");
    // The key is valid until the peer has acknowledged the WRITE.
    pair.post(A, 7, SendOp::Write(mem.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[7]);
    let done = pair.assert_sent(B, &[1, 2, 3]);
    assert_eq!(done[1].opcode, WcOpcode::LocalInv);
    pair.post(A, 8, SendOp::Write(mem.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(8, RemoteAccessError)]);
}

/// A binding does not wait for answers, unless it is fenced and a READ is open.
// shows: 10.6.7-window-order
#[test]
fn a_binding_waits_for_reads_only_behind_a_fence() {
    for fence in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let local = pair.mem(B, 64);
        let remote = pair.mem(A, 64);
        let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
        pair.post(B, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, 8)]);
        let flags = match fence {
            true => SendFlags::SIGNALED | SendFlags::FENCE,
            false => SendFlags::SIGNALED,
        };
        pair.post_with(B, 2, SendOp::BindMw(bind), &[], flags);
        pair.pump();
        assert!(
            pair.nodes[B].sent().is_empty(),
            "completions keep the order"
        );
        let bound = pair.nodes[B].nic.deregister_unbound(mem.key).is_err();
        assert_eq!(bound, !fence);
        if bound {
            pair.run();
            pair.assert_sent(B, &[1, 2]);
        }
    }
}

/// Loss makes the requester go back over bindings, which are not executed again: a second time
/// would fail.
// shows: 10.6.7-window-once
#[test]
fn going_back_does_not_bind_again() {
    for lost in NTH {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 4096);
        let local = pair.mem(B, 4096);
        let remote = pair.mem(A, 4096);
        pair.links[B].hit(lost, Fate::Drop, |_| true);
        for n in 0..3 {
            let write = SendOp::Write(remote.remote(0));
            pair.post(B, 3 * n, write, &[local.sge(0, 2000)]);
            let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
            pair.post(B, 3 * n + 1, SendOp::BindMw(bind), &[]);
            let read = SendOp::Read(remote.remote(0));
            pair.post(B, 3 * n + 2, read, &[local.sge(0, 8)]);
        }
        pair.run();
        pair.assert_sent(B, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

/// The same with lost responses, where acknowledgements of later requests pass over earlier ones.
#[test]
fn lost_responses_complete_bindings_in_order() {
    for lost in &NTH[..4] {
        let mut pair = Pair::new(Setup::default());
        let mem = pair.mem(B, 4096);
        let remote = pair.mem(A, 4096);
        let response = |sent: &Sent| sent.opcode().operation() == Operation::ReadResponse;
        pair.links[A].hit(lost, Fate::Drop, response);
        let mut expected = Vec::new();
        for n in 0..4 {
            let read = SendOp::Read(remote.remote(0));
            pair.post(B, 3 * n, read, &[mem.sge(0, 8)]);
            let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
            pair.post(B, 3 * n + 1, SendOp::BindMw(bind), &[]);
            let unbind = SendOp::LocalInv(bind.window.rkey(bind.key));
            pair.post(B, 3 * n + 2, unbind, &[]);
            expected.extend([3 * n, 3 * n + 1, 3 * n + 2]);
        }
        pair.run();
        pair.assert_sent(B, &expected);
        assert_eq!(pair.nodes[B].nic.deregister_unbound(mem.key), Ok(()));
    }
}

/// Nothing new is begun in SQD; waiting requests continue afterwards.
#[test]
fn sqd_holds_bindings_back() {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 64);
    let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
    pair.modify(B, &to_state(QpState::Sqd));
    pair.post(B, 1, SendOp::BindMw(bind), &[]);
    pair.run();
    pair.assert_sent(B, &[]);
    assert_eq!(pair.nodes[B].events, [Event::SqDrained(pair.nodes[B].qpn)]);
    pair.modify(B, &to_state(QpState::Rts));
    pair.run();
    pair.assert_sent(B, &[1]);
}

/// In the error state they are flushed, and not executed.
#[test]
fn a_failed_qp_binds_nothing() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        pair.modify(B, &to_state(QpState::Err));
        pair.post(B, 1, SendOp::BindMw(bind), &[]);
        pair.post(B, 2, SendOp::LocalInv(1), &[]);
        let done = pair.nodes[B].sent();
        let outcomes: Vec<(WcStatus, WcOpcode)> =
            done.iter().map(|c| (c.status, c.opcode)).collect();
        let expected = [
            (WorkRequestFlushed, WcOpcode::BindMw),
            (WorkRequestFlushed, WcOpcode::LocalInv),
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(pair.nodes[B].nic.deregister_unbound(mem.key), Ok(()));
    }
}

/// An unsignaled binding completes silently, and many of them leave nothing behind.
#[test]
fn a_queue_of_bindings_alone_drains() {
    let mut pair = Pair::new(Setup {
        signal_all: false,
        ..Setup::default()
    });
    let mem = bindable(&mut pair, 64);
    let id = window(&mut pair, MwType::Type2);
    for n in 0..300_u16 {
        let key = n.to_le_bytes()[0];
        let bind = MwBind {
            key,
            ..whole(id, &mem, 0, 64)
        };
        let none = SendFlags::empty();
        pair.post_with(B, 1, SendOp::BindMw(bind), &[], none);
        pair.post_with(B, 2, SendOp::LocalInv(id.rkey(key)), &[], none);
        pair.pump();
    }
    pair.assert_sent(B, &[]);
    assert_eq!(pair.nodes[B].nic.queued(pair.nodes[B].qpn), Some((0, 0)));
    assert!(pair.links[B].log.is_empty(), "no packet leaves for them");
    assert_eq!(
        pair.links[B].count(|sent| sent.opcode() == Opcode::RC_SEND_ONLY),
        0
    );
}

/// On an unreliable connection, too, a window is bound and invalidated in order; an invalid binding
/// stops the send queue there.
#[test]
fn windows_serve_unreliable_connections() {
    let mut pair = Pair::new(Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    });
    let mem = bindable(&mut pair, 4096);
    let local = pair.mem(A, 4096);
    local.write(0, &pattern(1, 4096));
    let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 2000);
    pair.post(B, 1, SendOp::BindMw(bind), &[]);
    pair.run();
    pair.assert_sent(B, &[1]);
    let write = SendOp::Write(through(&bind, &mem, 0));
    pair.post(A, 2, write, &[local.sge(0, 2000)]);
    pair.run();
    assert!(mem.read(0, 2000) == pattern(1, 2000));
    pair.post(B, 3, SendOp::LocalInv(bind.window.rkey(7)), &[]);
    pair.post(B, 4, SendOp::LocalInv(bind.window.rkey(7)), &[]);
    pair.post(B, 5, SendOp::Send, &[]);
    pair.run();
    let refused = WcStatus::MemoryWindowBindError;
    let expected = [(3, Success), (4, refused), (5, WorkRequestFlushed)];
    pair.assert_sent_as(B, &expected);
    assert_eq!(pair.state(B), QpState::Sqe);
    local.write(0, &[0; 2000]);
    pair.post(A, 6, write, &[local.sge(0, 2000)]);
    pair.run();
    assert!(mem.read(0, 2000) == pattern(1, 2000), "the window is gone");
}
