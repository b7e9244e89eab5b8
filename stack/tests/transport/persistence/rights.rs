//! The rights that a FLUSH to persistence needs, and the memory that can have them.

use super::{Disk, flush, flush_region, outcome, setup};
use crate::sim::{B, Mem, Pair, Setup, to_state};
use roce_stack::WcStatus::{
    MemoryWindowBindError, RemoteAccessError, RemoteInvalidRequest, Success,
};
use roce_stack::{
    Access, BindError, Buffer, Cause, Memory, MwBind, MwType, QpState, RegisterError, Reregister,
    ReregisterError, SendOp, WcStatus,
};
use std::sync::Arc;

/// The right is needed of the QP and of the region, beside that to flush to visibility if the FLUSH
/// asks for both.
// shows: A19-flush-rights
#[test]
fn rights_are_needed_of_qp_and_region() {
    let visible = Access::FLUSH_GLOBAL;
    let durable = Access::FLUSH_PERSISTENT;
    for (access, range, region) in [
        (visible, false, false),
        (durable, true, false),
        (visible | durable, true, true),
    ] {
        for (whole, allowed) in [(false, range), (true, region)] {
            let op = |mem: &Mem| match whole {
                true => flush_region(mem),
                false => flush(mem.remote(0), 8),
            };
            let status = |refused| if allowed { Success } else { refused };
            let mut pair = Pair::new(Setup { access, ..setup() });
            let (mem, _) = Disk::register(&mut pair.nodes[B], 8, false);
            let found = outcome(&mut pair, op(&mem));
            assert_eq!(found, status(RemoteInvalidRequest), "{access:?} {whole}");
            let mut pair = Pair::new(setup());
            let (mem, _) = Disk::register_with(&mut pair.nodes[B], 8, false, access);
            let found = outcome(&mut pair, op(&mem));
            assert_eq!(found, status(RemoteAccessError), "{access:?} {whole}");
        }
    }
}

/// Memory that can't be made durable has no right to be flushed to persistence.
// shows: A19-flush-persistent-memory
#[test]
fn other_memory_is_not_registered() {
    let mut pair = Pair::new(setup());
    let ordinary = pair.mem(B, 64);
    let (durable, _) = Disk::register(&mut pair.nodes[B], 64, false);
    let node = &mut pair.nodes[B];
    let right = Access::FLUSH_PERSISTENT;
    let memory = || Memory::buffer(Arc::new(Buffer::new(64).expect("a buffer")));
    let registered = node.nic.register_memory(node.pd, memory(), None, right);
    assert_eq!(registered, Err(RegisterError::NotDurable));
    let refused = Err(ReregisterError::Register(RegisterError::NotDurable));
    let change = Reregister {
        access: Some(right),
        ..Reregister::default()
    };
    assert_eq!(node.nic.reregister(ordinary.key, change), refused);
    let change = Reregister {
        memory: Some((memory(), None)),
        ..Reregister::default()
    };
    assert_eq!(node.nic.reregister(durable.key, change), refused);
}

/// The memory's own right is not needed for a window, but that it can be made durable.
// shows: A19-flush-persistent-memory
#[test]
fn a_window_flushes_what_it_covers() {
    for can_be_durable in [false, true] {
        for zero_based in [false, true] {
            let mut pair = Pair::new(setup());
            let access = Access::LOCAL_WRITE | Access::MW_BIND;
            let (mem, disk) = match can_be_durable {
                true => Disk::register_with(&mut pair.nodes[B], 64, false, access),
                false => {
                    let (_, disk) = Disk::register(&mut pair.nodes[B], 64, false);
                    (pair.nodes[B].mem_with(64, access), disk)
                }
            };
            mem.write(0, &[7; 64]);
            let (bound, bind) = bind(&mut pair, &mem, zero_based);
            if !can_be_durable {
                assert_eq!(bound, MemoryWindowBindError);
                let node = &pair.nodes[B];
                let failure = node.nic.failure(node.qpn).expect("a failure");
                assert_eq!(failure.cause, Cause::Bind(BindError::NotDurable));
                continue;
            }
            assert_eq!(bound, Success);
            let through = Mem {
                buffer: Arc::clone(&mem.buffer),
                key: bind.window.rkey(1),
            };
            let mut remote = through.remote(16);
            if zero_based {
                remote.addr = 0;
            }
            remote.addr += 4;
            assert_eq!(outcome(&mut pair, flush(remote, 8)), Success);
            let mut expected = [0; 64];
            expected[20..28].fill(7);
            assert_eq!(disk.after_power_cut(), expected);
            assert_eq!(
                outcome(&mut pair, flush_region(&through)),
                RemoteAccessError
            );
            assert_eq!(disk.after_power_cut(), expected);
        }
    }
}

/// Binds a window to the bytes 16 to 48, without the right to flush to visibility.
fn bind(pair: &mut Pair, mem: &Mem, zero_based: bool) -> (WcStatus, MwBind) {
    let node = &mut pair.nodes[B];
    let window = node.nic.alloc_mw(node.pd, MwType::Type2);
    let bind = MwBind {
        window: window.expect("a window"),
        key: 1,
        lkey: mem.key,
        addr: mem.addr() + 16,
        len: 32,
        access: Access::FLUSH_PERSISTENT,
        zero_based,
    };
    pair.post(B, 9, SendOp::BindMw(bind), &[]);
    pair.run();
    (pair.nodes[B].sent()[0].status, bind)
}

/// A FLUSH of a whole window names the window's bytes, not those of its region.
// shows: A19-flush-range
#[test]
fn a_flush_of_a_whole_window_leaves_the_rest_of_its_region() {
    let mut pair = Pair::new(setup());
    let access = Access::LOCAL_WRITE | Access::MW_BIND;
    let (mem, disk) = Disk::register_with(&mut pair.nodes[B], 64, false, access);
    mem.write(0, &[7; 64]);
    let node = &mut pair.nodes[B];
    let window = node.nic.alloc_mw(node.pd, MwType::Type2);
    let bind = MwBind {
        window: window.expect("a window"),
        key: 1,
        lkey: mem.key,
        addr: mem.addr() + 16,
        len: 32,
        access: Access::FLUSH_PERSISTENT | Access::FLUSH_GLOBAL,
        zero_based: true,
    };
    pair.post(B, 9, SendOp::BindMw(bind), &[]);
    pair.run();
    let through = Mem {
        buffer: Arc::clone(&mem.buffer),
        key: bind.window.rkey(1),
    };
    assert_eq!(outcome(&mut pair, flush_region(&through)), Success);
    let mut expected = [0; 64];
    expected[16..48].fill(7);
    assert_eq!(disk.after_power_cut(), expected);
}

/// Memory that is gone is not flushed.
#[test]
fn lost_memory_is_not_flushed() {
    let mut pair = Pair::new(setup());
    let (mem, _) = Disk::register(&mut pair.nodes[B], 64, false);
    pair.nodes[B].nic.lose_memory(mem.key);
    assert_eq!(outcome(&mut pair, flush_region(&mem)), RemoteAccessError);
    assert_ne!(pair.state(B), QpState::Rts);
    let now = pair.now;
    let node = &mut pair.nodes[B];
    let reset = node.nic.modify_qp(now, node.qpn, &to_state(QpState::Reset));
    reset.expect("legal");
}
