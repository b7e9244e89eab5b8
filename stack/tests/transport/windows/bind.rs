//! Refused bindings and invalidations: the request completes as a memory window bind error and the
//! QP fails (IBTA 1.7, 10.6.7.2 and 11.6.2).

use super::{TYPES, bindable, peers_rights, through, whole, window};
use crate::sim::{A, B, Mem, Pair, Setup};
use roce_stack::WcStatus::{MemoryWindowBindError, RemoteAccessError, Success, WorkRequestFlushed};
use roce_stack::{Access, MwBind, MwType, PostError, QpState, SendOp, SendRequest};

/// Posts a request at B between two others, which must fail as a bind error; those before it
/// succeed, those behind it are flushed.
#[track_caller]
fn is_refused(pair: &mut Pair, op: SendOp) {
    let source = pair.mem(B, 4096);
    let target = pair.mem(A, 4096);
    let write = SendOp::Write(target.remote(0));
    pair.post(B, 1, write, &[source.sge(0, 4096)]);
    pair.post(B, 2, op, &[]);
    pair.post(B, 3, write, &[source.sge(0, 8)]);
    pair.run();
    let expected = [
        (1, Success),
        (2, MemoryWindowBindError),
        (3, WorkRequestFlushed),
    ];
    pair.assert_sent_as(B, &expected);
    assert_eq!(pair.state(B), QpState::Err);
    assert_eq!(pair.nodes[B].events, [], "the completion reports it");
}

/// A valid binding that `spoil` has changed is refused.
fn bad_bind(kind: MwType, spoil: impl Fn(&mut Pair, &Mem, &mut MwBind)) {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 64);
    let mut bind = whole(window(&mut pair, kind), &mem, 8, 16);
    spoil(&mut pair, &mem, &mut bind);
    is_refused(&mut pair, SendOp::BindMw(bind));
}

#[test]
fn a_window_must_exist() {
    for kind in TYPES {
        bad_bind(kind, |pair, _, bind| {
            assert!(pair.nodes[B].nic.dealloc_mw(bind.window));
        });
    }
}

#[test]
fn a_region_must_exist() {
    for kind in TYPES {
        bad_bind(kind, |_, _, bind| bind.lkey ^= 1);
        bad_bind(kind, |_, _, bind| bind.lkey = bind.window.rkey(7));
        bad_bind(kind, |pair, mem, _| {
            assert!(pair.nodes[B].nic.deregister(mem.key));
        });
    }
}

/// C10-72.
// shows: 10.6.7-window-pd
// trap: bind-domains
#[test]
fn window_region_and_qp_must_be_of_one_domain() {
    for kind in TYPES {
        bad_bind(kind, |pair, _, bind| {
            let node = &mut pair.nodes[B];
            let other = node.nic.alloc_pd();
            bind.window = node.nic.alloc_mw(other, kind).expect("a window");
        });
        bad_bind(kind, |pair, _, bind| {
            let own = pair.nodes[B].pd;
            pair.nodes[B].pd = pair.nodes[B].nic.alloc_pd();
            let mem = bindable(pair, 64);
            pair.nodes[B].pd = own;
            (bind.lkey, bind.addr) = (mem.key, mem.addr());
        });
        // Window and region share a domain, but not the QP's.
        bad_bind(kind, |pair, _, bind| {
            let own = pair.nodes[B].pd;
            pair.nodes[B].pd = pair.nodes[B].nic.alloc_pd();
            let mem = bindable(pair, 64);
            bind.window = window(pair, kind);
            pair.nodes[B].pd = own;
            (bind.lkey, bind.addr) = (mem.key, mem.addr());
        });
    }
}

/// C10-73.
// shows: 10.6.7-window-allowed
#[test]
fn a_region_must_allow_windows() {
    for kind in TYPES {
        bad_bind(kind, |pair, _, bind| {
            let access = Access::LOCAL_WRITE | peers_rights();
            let mem = pair.nodes[B].mem_with(64, access);
            (bind.lkey, bind.addr) = (mem.key, mem.addr());
        });
    }
}

/// C10-74: peers can't write memory without local write access.
// shows: 10.6.7-window-rights
#[test]
fn writing_needs_local_writing() {
    for kind in TYPES {
        for (access, refused) in [
            (Access::REMOTE_WRITE, true),
            (Access::REMOTE_ATOMIC, true),
            (Access::REMOTE_READ, false),
            (Access::empty(), false),
        ] {
            let mut pair = Pair::new(Setup::default());
            let mem = pair.nodes[B].mem_with(64, Access::MW_BIND);
            let mut bind = whole(window(&mut pair, kind), &mem, 0, 64);
            bind.access = access;
            if refused {
                is_refused(&mut pair, SendOp::BindMw(bind));
            } else {
                pair.post(B, 1, SendOp::BindMw(bind), &[]);
                pair.run();
                pair.assert_sent(B, &[1]);
            }
        }
    }
}

/// Windows are for peers: local rights make no sense.
// shows: 10.6.7-window-rights
#[test]
fn local_rights_are_refused() {
    for kind in TYPES {
        bad_bind(kind, |_, _, bind| bind.access |= Access::LOCAL_WRITE);
        bad_bind(kind, |_, _, bind| bind.access |= Access::MW_BIND);
    }
}

/// C10-75.
// shows: 10.6.7-window-range
#[test]
fn a_window_must_lie_in_its_region() {
    for kind in TYPES {
        bad_bind(kind, |_, mem, bind| bind.addr = mem.addr() - 1);
        bad_bind(kind, |_, _, bind| bind.len = 57);
        bad_bind(kind, |_, _, bind| bind.len = u64::MAX);
        bad_bind(kind, |_, _, bind| bind.addr = u64::MAX);
        bad_bind(kind, |_, mem, bind| bind.addr = mem.addr() + 64);
    }
}

/// A window can't open a region whose remote rights were invalidated.
#[test]
fn an_invalidated_region_takes_no_window() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = pair.mem(B, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        pair.post(B, 8, SendOp::LocalInv(mem.key), &[]);
        pair.run();
        pair.assert_sent(B, &[8]);
        is_refused(&mut pair, SendOp::BindMw(bind));
    }
}

/// o10-36.2.2.
#[test]
fn a_window_of_type_1_is_not_zero_based() {
    bad_bind(MwType::Type1, |_, _, bind| bind.zero_based = true);
}

/// o10-37.2.40.
// shows: 10.6.7-window-unbind
#[test]
fn a_window_of_type_2_is_not_bound_to_nothing() {
    bad_bind(MwType::Type2, |_, _, bind| bind.len = 0);
}

/// o10-37.2.30: type 2 must be unbound; type 1 can be bound again.
// shows: 10.6.7-window-bind-1, 10.6.7-window-rebind
#[test]
fn only_a_window_of_type_1_is_bound_anew() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let first = whole(window(&mut pair, kind), &mem, 0, 8);
        pair.post(B, 8, SendOp::BindMw(first), &[]);
        pair.run();
        pair.assert_sent(B, &[8]);
        let second = MwBind {
            key: 8,
            addr: mem.addr() + 8,
            ..first
        };
        if kind == MwType::Type2 {
            is_refused(&mut pair, SendOp::BindMw(second));
            continue;
        }
        pair.post(B, 9, SendOp::BindMw(second), &[]);
        pair.run();
        pair.assert_sent(B, &[9]);
        let local = pair.mem(A, 8);
        let write = |bind, offset| SendOp::Write(through(bind, &mem, offset));
        pair.post(A, 1, write(&second, 8), &[local.sge(0, 8)]);
        pair.post(A, 2, write(&first, 0), &[local.sge(0, 8)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, Success), (2, RemoteAccessError)]);
    }
}

/// A window of type 1 is unbound by binding it to no bytes; the region that the request names does
/// not matter.
// shows: 10.6.7-window-unbind
#[test]
fn binding_no_bytes_unbinds_a_window_of_type_1() {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 64);
    let bind = whole(window(&mut pair, MwType::Type1), &mem, 0, 64);
    let unbind = MwBind {
        lkey: 0,
        len: 0,
        ..bind
    };
    pair.post(B, 8, SendOp::BindMw(bind), &[]);
    pair.post(B, 9, SendOp::BindMw(unbind), &[]);
    pair.post(B, 10, SendOp::BindMw(unbind), &[]);
    pair.run();
    pair.assert_sent(B, &[8, 9, 10]);
    assert_eq!(pair.nodes[B].nic.deregister_unbound(mem.key), Ok(()));
    let local = pair.mem(A, 8);
    let op = SendOp::Write(through(&bind, &mem, 0));
    pair.post(A, 1, op, &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
}

/// Invalidation of keys that may not be invalidated locally.
// shows: 10.6.7-window-invalidate
#[test]
fn illegal_invalidations_are_refused() {
    let of: [fn(&mut Pair) -> u32; 6] = [
        // No key at all.
        |_| 0,
        // A region that does not allow it.
        |pair| bindable(pair, 8).key,
        // A window that is not bound.
        |pair| window(pair, MwType::Type2).rkey(7),
        // A window of type 1 (o10-37.2.26).
        |pair| bound(pair, MwType::Type1).1.window.rkey(7),
        // A key of a window that is not its present one.
        |pair| bound(pair, MwType::Type2).1.window.rkey(8),
        // A region with a window.
        |pair| bound(pair, MwType::Type2).0.key,
    ];
    for of in of {
        let mut pair = Pair::new(Setup::default());
        let key = of(&mut pair);
        is_refused(&mut pair, SendOp::LocalInv(key));
    }
}

/// A region with all rights at B, with a window bound.
fn bound(pair: &mut Pair, kind: MwType) -> (Mem, MwBind) {
    let mem = pair.mem(B, 64);
    let bind = whole(window(pair, kind), &mem, 0, 64);
    pair.post(B, 9, SendOp::BindMw(bind), &[]);
    pair.run();
    pair.assert_sent(B, &[9]);
    (mem, bind)
}

/// Neither accepts local memory.
#[test]
fn bindings_and_invalidations_have_no_elements() {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 64);
    let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
    for op in [SendOp::BindMw(bind), SendOp::LocalInv(1)] {
        let wr = SendRequest::new(1, op, mem.sge(0, 8));
        let (now, node) = (pair.now, &mut pair.nodes[B]);
        let refused = Err(PostError::TooManySges { given: 1, max: 0 });
        assert_eq!(node.nic.post_send(now, node.qpn, &wr), refused);
    }
}

/// Keys of windows are drawn at random; those of one window never name another, nor a region.
// shows: 10.6.7-window-alloc
#[test]
fn keys_of_windows_are_their_own() {
    let mut pair = Pair::new(Setup::default());
    let mut seen = std::collections::HashSet::new();
    for n in 0..200 {
        assert!(seen.insert(window(&mut pair, TYPES[n % 2]).rkey(0) >> 8));
        assert!(seen.insert(pair.mem(B, 1).key >> 8));
    }
    let id = window(&mut pair, MwType::Type1);
    let nic = &mut pair.nodes[B].nic;
    let mut last = 0;
    for _ in 0..1000 {
        let next = nic.next_mw_key(id).expect("a window");
        assert_ne!(next, last, "the key of the binding before");
        last = next;
    }
    assert!(nic.dealloc_mw(id));
    assert_eq!(nic.next_mw_key(id), None);
}
