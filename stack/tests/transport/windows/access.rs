//! The access that a bound window gives, and the QPs that have it.

use super::{TYPES, bindable, peers_rights, through, whole, window};
use crate::errors::remote_operations;
use crate::sim::{A, B, Pair, Setup, pattern};
use roce_stack::WcStatus::{RemoteAccessError, Success};
use roce_stack::{
    Access, DeregisterError, MwType, QpKind, QpState, QueueLimits, RemoteAddr, SendOp, WcOpcode,
    WcStatus,
};

/// The result of A's operation on `remote`; of several packets if it is a WRITE or READ.
fn attempt(pair: &mut Pair, op: SendOp, len: usize) -> WcStatus {
    let local = pair.mem(A, len.max(8));
    local.write(0, &pattern(5, len));
    pair.post_recv(B, 70, &[]);
    pair.post(A, 1, op, &[local.sge(0, len)]);
    pair.run();
    let done = pair.nodes[A].sent();
    assert_eq!(done.len(), 1);
    done[0].status
}

/// A window gives access to its bytes with its own rights, although the region has none.
#[test]
fn a_window_opens_what_its_region_keeps_closed() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 8192);
        let bind = whole(window(&mut pair, kind), &mem, 1000, 6000);
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.run();
        let bound = pair.assert_sent(B, &[9]);
        assert_eq!((bound[0].opcode, bound[0].byte_len), (WcOpcode::BindMw, 0));
        let write = SendOp::Write(through(&bind, &mem, 1000));
        assert_eq!(attempt(&mut pair, write, 6000), Success);
        assert!(mem.read(1000, 6000) == pattern(5, 6000));
        assert_eq!(mem.read(999, 1), [0]);
        assert_eq!(mem.read(7000, 1), [0]);
        for op in remote_operations(through(&bind, &mem, 1000)) {
            assert_eq!(attempt(&mut pair, op, 8), Success, "{kind:?} {op:?}");
        }
        // The region itself stays closed.
        let closed = SendOp::Write(mem.remote(1000));
        assert_eq!(attempt(&mut pair, closed, 8), RemoteAccessError);
    }
}

/// Address and length are checked against the window, not the region.
// shows: 10.6.7-window-range
#[test]
fn a_windows_bounds_are_exact() {
    for kind in TYPES {
        for (offset, len, status) in [
            (1000, 2000, Success),
            (2999, 1, Success),
            (999, 1, RemoteAccessError),
            (1000, 2001, RemoteAccessError),
            (3000, 1, RemoteAccessError),
            (0, 4096, RemoteAccessError),
        ] {
            for write in [true, false] {
                let mut pair = Pair::new(Setup::default());
                let mem = bindable(&mut pair, 4096);
                let bind = whole(window(&mut pair, kind), &mem, 1000, 2000);
                pair.post(B, 9, SendOp::BindMw(bind), &[]);
                pair.run();
                let remote = through(&bind, &mem, offset);
                let op = match write {
                    true => SendOp::Write(remote),
                    false => SendOp::Read(remote),
                };
                assert_eq!(attempt(&mut pair, op, len), status, "{offset} {len}");
                if write && status != Success {
                    assert_eq!(mem.read(0, 4096), vec![0; 4096]);
                }
            }
        }
    }
}

/// A window has the rights that it was bound with, and no others.
// shows: 10.6.7-window-rights
#[test]
fn a_windows_rights_are_its_own() {
    let rights = [
        (Access::empty(), [false; 5]),
        (Access::REMOTE_WRITE, [true, true, false, false, false]),
        (Access::REMOTE_READ, [false, false, true, false, false]),
        (Access::REMOTE_ATOMIC, [false, false, false, true, true]),
    ];
    for (access, admitted) in rights {
        for (n, admitted) in admitted.into_iter().enumerate() {
            let mut pair = Pair::new(Setup::default());
            let region = Access::LOCAL_WRITE | Access::MW_BIND | peers_rights();
            let mem = pair.nodes[B].mem_with(64, region);
            let mut bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
            bind.access = access;
            pair.post(B, 9, SendOp::BindMw(bind), &[]);
            pair.run();
            let op = remote_operations(through(&bind, &mem, 0))[n];
            let status = if admitted { Success } else { RemoteAccessError };
            assert_eq!(attempt(&mut pair, op, 8), status, "{access:?} {op:?}");
        }
    }
}

/// Peers use addresses from 0 in a zero-based window (10.6.7.2.7).
// shows: 10.6.7-window-zero-based
// trap: length-wraps
#[test]
fn a_zero_based_window_counts_from_its_first_byte() {
    for (addr, len, status) in [
        (0, 50, Success),
        (49, 1, Success),
        (50, 1, RemoteAccessError),
        (u64::MAX, 1, RemoteAccessError),
        (u64::MAX - 7, 8, RemoteAccessError),
    ] {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 200);
        let mut bind = whole(window(&mut pair, MwType::Type2), &mem, 100, 50);
        bind.zero_based = true;
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.run();
        let rkey = bind.window.rkey(7);
        let op = SendOp::Write(RemoteAddr { addr, rkey });
        assert_eq!(attempt(&mut pair, op, len), status, "{addr}");
        if status == Success {
            let at = 100 + usize::try_from(addr).expect("small");
            assert_eq!(mem.read(at, len), pattern(5, len));
        }
    }
}

/// The consumer chooses only the low 8 bits of a key; another key, or that of an earlier binding,
/// opens nothing.
// shows: 10.6.7-window-bind-2
#[test]
fn only_the_key_of_the_binding_opens_a_window() {
    for kind in TYPES {
        for wrong in [6, 8, 0] {
            let mut pair = Pair::new(Setup::default());
            let mem = bindable(&mut pair, 64);
            let mut bind = whole(window(&mut pair, kind), &mem, 0, 64);
            pair.post(B, 9, SendOp::BindMw(bind), &[]);
            pair.run();
            bind.key = wrong;
            let op = SendOp::Write(through(&bind, &mem, 0));
            assert_eq!(attempt(&mut pair, op, 8), RemoteAccessError);
        }
    }
}

/// A window that was never bound opens nothing, with any key.
// shows: 10.6.7-window-alloc
#[test]
fn an_unbound_window_opens_nothing() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        let op = SendOp::Write(through(&bind, &mem, 0));
        assert_eq!(attempt(&mut pair, op, 8), RemoteAccessError);
    }
}

/// A window of type 2 is open only to the QP that bound it; one of type 1 is open to all QPs of its
/// protection domain (10.6.7.2.2 and 10.6.7.2.3).
// shows: 10.6.7-window-qp
#[test]
fn a_window_of_type_2_is_of_one_qp() {
    for (kind, status) in [(MwType::Type1, Success), (MwType::Type2, RemoteAccessError)] {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.run();
        // Another pair of QPs between the same NICs, at B in the same domain.
        let size = QueueLimits {
            depth: 4,
            max_sge: 1,
        };
        for side in [A, B] {
            let node = &mut pair.nodes[side];
            node.qpn = node.another_qp(QpKind::Rc, size);
        }
        for side in [A, B] {
            pair.connect(side);
        }
        let op = SendOp::Write(through(&bind, &mem, 0));
        assert_eq!(attempt(&mut pair, op, 8), status, "{kind:?}");
    }
}

/// When the QP is destroyed, the windows that it bound are unbound: nothing else could unbind them.
// shows: 10.6.7-window-qp-goes
#[test]
fn destroying_the_qp_frees_its_windows() {
    let mut pair = Pair::new(Setup::default());
    let mem = bindable(&mut pair, 64);
    let bind = whole(window(&mut pair, MwType::Type2), &mem, 0, 64);
    pair.post(B, 9, SendOp::BindMw(bind), &[]);
    pair.run();
    let node = &mut pair.nodes[B];
    let bound = Err(DeregisterError::WindowsBound { windows: 1 });
    assert_eq!(node.nic.deregister_unbound(mem.key), bound);
    assert!(node.nic.destroy_qp(node.qpn));
    assert_eq!(node.nic.deregister_unbound(mem.key), Ok(()));
}

/// A region with windows stays (11.2.8.4), unless it is deregistered by force, which unbinds its
/// windows.
// shows: 10.6.7-window-region-stays
#[test]
fn a_region_with_bound_windows_is_not_deregistered() {
    for kind in TYPES {
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, 64);
        let bind = whole(window(&mut pair, kind), &mem, 0, 64);
        let other = whole(window(&mut pair, kind), &mem, 8, 8);
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.post(B, 10, SendOp::BindMw(other), &[]);
        pair.run();
        let nic = &mut pair.nodes[B].nic;
        let bound = |windows| Err(DeregisterError::WindowsBound { windows });
        assert_eq!(nic.deregister_unbound(mem.key), bound(2));
        assert!(nic.dealloc_mw(other.window));
        assert!(!nic.dealloc_mw(other.window));
        assert_eq!(nic.deregister_unbound(mem.key), bound(1));
        let write = SendOp::Write(through(&bind, &mem, 0));
        assert_eq!(attempt(&mut pair, write, 8), Success);
        assert!(pair.nodes[B].nic.deregister(mem.key));
        assert_eq!(attempt(&mut pair, write, 8), RemoteAccessError);
        let unknown = Err(DeregisterError::UnknownKey);
        assert_eq!(pair.nodes[B].nic.deregister_unbound(mem.key), unknown);
    }
}

/// A window that is deallocated in the middle of a WRITE or READ denies the rest.
#[test]
fn freeing_a_window_stops_a_message_in_the_middle() {
    for write in [true, false] {
        let len = 512 << 10;
        let mut pair = Pair::new(Setup::default());
        let mem = bindable(&mut pair, len);
        let local = pair.mem(A, len);
        let bind = whole(window(&mut pair, MwType::Type1), &mem, 0, len);
        pair.post(B, 9, SendOp::BindMw(bind), &[]);
        pair.run();
        let remote = through(&bind, &mem, 0);
        let (op, from) = match write {
            true => (SendOp::Write(remote), A),
            false => (SendOp::Read(remote), B),
        };
        pair.post(A, 1, op, &[local.sge(0, len)]);
        pair.run_until(|pair| pair.links[from].log.len() >= 100);
        assert!(pair.nodes[B].nic.dealloc_mw(bind.window));
        pair.run();
        pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
        assert_eq!(pair.state(B), QpState::Err);
    }
}
