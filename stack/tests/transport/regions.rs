//! Regions that are not simply a buffer: parts of one, none at all, and re-registered regions (IBTA
//! 1.7, 10.6 and 11.2.8).

use crate::sim::{A, B, Mem, Pair, Setup, pattern};
use roce_stack::WcStatus::{LocalProtectionError, RemoteAccessError, Success};
use roce_stack::{
    Access, Buffer, Memory, MwBind, MwType, RegisterError, RemoteAddr, Reregister, ReregisterError,
    SendOp, Sge, WcStatus,
};
use std::sync::Arc;

fn null_region(pair: &mut Pair, side: usize) -> u32 {
    let node = &mut pair.nodes[side];
    let (pd, access) = (node.pd, Access::LOCAL_WRITE);
    node.nic
        .register_memory(pd, Memory::null(), None, access)
        .expect("registered")
}

fn null_sge(lkey: u32, addr: u64, length: u32) -> Sge {
    Sge { addr, length, lkey }
}

/// Bytes from a null region are zeros, bytes to it are dropped, at any address.
// shows: 10.6-null
#[test]
fn a_null_region_reads_zeros_and_swallows_bytes() {
    let mut pair = Pair::new(Setup::default());
    let from = pair.mem(A, 3000);
    let to = pair.mem(B, 9000);
    from.write(0, &pattern(1, 3000));
    to.write(0, &[0xee; 9000]);
    let null = [null_region(&mut pair, A), null_region(&mut pair, B)];
    // Out: bytes, zeros, bytes.
    let sges = [
        from.sge(0, 1000),
        null_sge(null[A], u64::MAX - 2000, 2000),
        from.sge(1000, 2000),
    ];
    pair.post(A, 1, SendOp::Write(to.remote(0)), &sges);
    pair.run();
    pair.assert_sent(A, &[1]);
    let data = pattern(1, 3000);
    assert!(to.read(0, 1000) == data[..1000]);
    assert!(to.read(1000, 2000) == [0; 2000]);
    assert!(to.read(3000, 2000) == data[1000..]);
    assert_eq!(to.read(5000, 1), [0xee]);
    // In: a receive keeps only the first and the last 500 bytes of the same.
    let keep = [
        to.sge(6000, 500),
        null_sge(null[B], 0, 4000),
        to.sge(6500, 500),
    ];
    pair.post_recv(B, 7, &keep);
    pair.post(A, 2, SendOp::Send, &sges);
    pair.run();
    pair.assert_sent(A, &[2]);
    pair.assert_received(B, &[7]);
    assert!(to.read(6000, 500) == data[..500]);
    assert!(to.read(6500, 500) == data[2500..]);
    assert_eq!(to.read(7000, 1), [0xee]);
    // And by READ and an atomic, whose results are not needed.
    let add = SendOp::FetchAdd {
        remote: to.remote(8000),
        add: 1,
    };
    pair.post(
        A,
        3,
        SendOp::Read(to.remote(0)),
        &[null_sge(null[A], 5, 5000)],
    );
    pair.post(A, 4, add, &[null_sge(null[A], 77, 8)]);
    pair.run();
    pair.assert_sent(A, &[3, 4]);
}

// shows: 10.6-null
#[test]
fn a_null_region_is_not_for_peers() {
    let mut pair = Pair::new(Setup::default());
    let node = &mut pair.nodes[B];
    for access in [
        Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
        Access::MW_BIND,
        Access::REMOTE_INVALIDATE,
    ] {
        let refused = node
            .nic
            .register_memory(node.pd, Memory::null(), None, access);
        assert_eq!(refused, Err(RegisterError::NullIsLocal));
    }
    let rkey = null_region(&mut pair, B);
    let local = pair.mem(A, 8);
    let remote = RemoteAddr { addr: 0, rkey };
    pair.post(A, 1, SendOp::Read(remote), &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
}

/// A part of a buffer, with addresses from 0 on.
// shows: 10.6-zero-based
#[test]
fn a_part_of_a_buffer_is_a_region() {
    for (offset, len, status) in [
        (0, 100, Success),
        (99, 1, Success),
        (100, 1, RemoteAccessError),
        (u64::MAX, 1, RemoteAccessError),
    ] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 100);
        local.write(0, &[5; 100]);
        let buffer = Arc::new(Buffer::new(300).expect("a buffer"));
        let part = Memory::part(Arc::clone(&buffer), 150, 100).expect("in the buffer");
        let node = &mut pair.nodes[B];
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let rkey = node.nic.register_memory(node.pd, part, Some(0), access);
        let remote = RemoteAddr {
            addr: offset,
            rkey: rkey.expect("registered"),
        };
        pair.post(A, 1, SendOp::Write(remote), &[local.sge(0, len)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, status)]);
        let mut expected = vec![0; 300];
        if status == Success {
            let at = 150 + usize::try_from(offset).expect("small");
            expected[at..at + len].fill(5);
        }
        let mut found = vec![0; 300];
        buffer.read(0, &mut found).expect("all of it");
        assert_eq!(found, expected);
    }
    let buffer = Arc::new(Buffer::new(300).expect("a buffer"));
    for (offset, len) in [(300, 1), (0, 301), (usize::MAX, 1), (1, usize::MAX)] {
        assert!(Memory::part(Arc::clone(&buffer), offset, len).is_err());
    }
}

fn write(pair: &mut Pair, remote: RemoteAddr) -> WcStatus {
    let local = pair.mem(A, 8);
    local.write(0, &[9; 8]);
    pair.post(A, 1, SendOp::Write(remote), &[local.sge(0, 8)]);
    pair.run();
    let done = pair.nodes[A].sent();
    assert_eq!(done.len(), 1);
    done[0].status
}

/// Rights, domain and memory can be changed, each alone; the key stays.
// shows: 10.6.2-reregister
#[test]
fn a_region_is_registered_anew() {
    let writable = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    // Rights: none, then some.
    let mut pair = Pair::new(Setup::default());
    let mem = pair.nodes[B].mem_with(8, Access::LOCAL_WRITE);
    let rights = Reregister {
        access: Some(writable),
        ..Reregister::default()
    };
    let done = pair.nodes[B].nic.reregister(mem.key, rights);
    assert_eq!(done, Ok(()));
    assert_eq!(write(&mut pair, mem.remote(0)), Success);
    assert_eq!(mem.read(0, 8), [9; 8]);
    // Rights: all, then none.
    let no_rights = Reregister {
        access: Some(Access::empty()),
        ..Reregister::default()
    };
    let done = pair.nodes[B].nic.reregister(mem.key, no_rights);
    assert_eq!(done, Ok(()));
    assert_eq!(write(&mut pair, mem.remote(0)), RemoteAccessError);
    // Domain.
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 8);
    let node = &mut pair.nodes[B];
    let other = node.nic.alloc_pd();
    for (pd, status) in [(node.pd, Success), (other, RemoteAccessError)] {
        let domain = Reregister {
            pd: Some(pd),
            ..Reregister::default()
        };
        assert_eq!(pair.nodes[B].nic.reregister(mem.key, domain), Ok(()));
        assert_eq!(write(&mut pair, mem.remote(0)), status);
    }
    // Memory, with the address of the previous one.
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 8);
    let buffer = Arc::new(Buffer::new(8).expect("a buffer"));
    let memory = Reregister {
        memory: Some((Memory::buffer(Arc::clone(&buffer)), Some(mem.addr()))),
        ..Reregister::default()
    };
    assert_eq!(pair.nodes[B].nic.reregister(mem.key, memory), Ok(()));
    assert_eq!(write(&mut pair, mem.remote(0)), Success);
    let mut found = [0; 8];
    buffer.read(0, &mut found).expect("all of it");
    assert_eq!((found, mem.read(0, 8)), ([9; 8], vec![0; 8]));
}

/// A refused change leaves the region unchanged.
// shows: 10.6.2-reregister
// trap: length-wraps
#[test]
fn a_refused_change_changes_nothing() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 8);
    let foreign = pair.nodes[A].nic.alloc_pd();
    let foreign = [foreign, pair.nodes[A].nic.alloc_pd()][1];
    let too_far = Some((Memory::buffer(Arc::clone(&mem.buffer)), Some(u64::MAX)));
    let changes = [
        (
            Reregister {
                access: Some(Access::REMOTE_WRITE),
                pd: Some(pair.nodes[B].pd),
                ..Reregister::default()
            },
            RegisterError::NeedsLocalWrite,
        ),
        (
            Reregister {
                pd: Some(foreign),
                access: Some(Access::empty()),
                ..Reregister::default()
            },
            RegisterError::UnknownPd,
        ),
        (
            Reregister {
                memory: too_far,
                access: Some(Access::empty()),
                ..Reregister::default()
            },
            RegisterError::Wraps,
        ),
        (
            Reregister {
                memory: Some((Memory::null(), None)),
                ..Reregister::default()
            },
            RegisterError::NullIsLocal,
        ),
    ];
    let nic = &mut pair.nodes[B].nic;
    for (change, error) in changes {
        let refused = nic.reregister(mem.key, change);
        assert_eq!(refused, Err(ReregisterError::Register(error)));
    }
    let unknown = nic.reregister(mem.key ^ 1, Reregister::default());
    assert_eq!(unknown, Err(ReregisterError::UnknownKey));
    assert_eq!(write(&mut pair, mem.remote(0)), Success);
    assert_eq!(mem.read(0, 8), [9; 8]);
}

// shows: 10.6.2-reregister-windows
#[test]
fn a_region_with_windows_is_not_changed() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 8);
    let node = &mut pair.nodes[B];
    let window = node.nic.alloc_mw(node.pd, MwType::Type1);
    let bind = MwBind {
        window: window.expect("a window"),
        key: 1,
        lkey: mem.key,
        addr: mem.addr(),
        len: 8,
        access: Access::REMOTE_WRITE,
        zero_based: false,
    };
    pair.post(B, 1, SendOp::BindMw(bind), &[]);
    pair.run();
    let nic = &mut pair.nodes[B].nic;
    let bound = Err(ReregisterError::WindowsBound { windows: 1 });
    assert_eq!(nic.reregister(mem.key, Reregister::default()), bound);
    assert!(nic.dealloc_mw(bind.window));
    assert_eq!(nic.reregister(mem.key, Reregister::default()), Ok(()));
}

/// A change in the middle of a message takes effect from the next packet on.
// shows: 10.6.2-reregister-under-way
#[test]
fn a_change_in_the_middle_of_a_message_denies_the_rest() {
    for local in [true, false] {
        let len = 512 << 10;
        let mut pair = Pair::new(Setup::default());
        let from = pair.mem(A, len);
        let to = pair.mem(B, len);
        from.write(0, &vec![1; len]);
        pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
        pair.run_until(|pair| pair.links[A].log.len() >= 100);
        let (side, mem, status): (usize, &Mem, _) = match local {
            true => (A, &from, LocalProtectionError),
            false => (B, &to, RemoteAccessError),
        };
        let smaller = Memory::part(Arc::clone(&mem.buffer), 0, 1000).expect("a part");
        let change = Reregister {
            memory: Some((smaller, Some(mem.addr()))),
            ..Reregister::default()
        };
        assert_eq!(pair.nodes[side].nic.reregister(mem.key, change), Ok(()));
        pair.run();
        pair.assert_sent_as(A, &[(1, status)]);
        assert_eq!(to.read(len - 1, 1), [0]);
    }
}

/// A re-registration restores a region that a peer had invalidated.
#[test]
fn a_new_registration_undoes_an_invalidation() {
    let mut pair = Pair::new(Setup::default());
    let mem = pair.mem(B, 8);
    pair.post(B, 3, SendOp::LocalInv(mem.key), &[]);
    pair.run();
    let nic = &mut pair.nodes[B].nic;
    assert_eq!(nic.reregister(mem.key, Reregister::default()), Ok(()));
    assert_eq!(write(&mut pair, mem.remote(0)), Success);
}
