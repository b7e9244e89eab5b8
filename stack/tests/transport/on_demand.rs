//! Regions of memory that may be unmapped at any time: a request that accesses a hole fails, on
//! either side.

use crate::sim::{A, B, Pair, Setup, pattern};
use roce_stack::WcStatus::{
    LocalProtectionError, RemoteAccessError, RemoteOperationError, Success,
};
use roce_stack::{
    Access, FaultSafe, Memory, MemoryFault, MwBind, MwType, RemoteAddr, SendOp, Sge, WcStatus,
};
use std::sync::{Arc, Mutex};

const PAGE: usize = 4096;
const BASE: u64 = 0x7f00_0000_0000;

/// A few pages at [`BASE`], each of which is mapped or not.
#[derive(Debug)]
struct Pages {
    bytes: Mutex<Vec<u8>>,
    holes: Mutex<Vec<usize>>,
}

impl Pages {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; count * PAGE]),
            holes: Mutex::new(Vec::new()),
        })
    }

    fn unmap(&self, page: usize) {
        self.holes.lock().expect("no panic").push(page);
    }

    /// The number of bytes that are mapped, up to the first that is not.
    fn there(&self, at: usize, len: usize) -> usize {
        let holes = self.holes.lock().expect("no panic");
        let bytes = self.bytes.lock().expect("no panic");
        let missing = |at: usize| at >= bytes.len() || holes.contains(&(at / PAGE));
        (at..at + len).take_while(|at| !missing(*at)).count()
    }
}

fn offset(addr: u64) -> Result<usize, MemoryFault> {
    let offset = addr.checked_sub(BASE).ok_or(MemoryFault)?;
    usize::try_from(offset).map_err(|_| MemoryFault)
}

impl FaultSafe for Pages {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let at = offset(addr)?;
        if self.there(at, out.len()) < out.len() {
            return Err(MemoryFault);
        }
        out.copy_from_slice(&self.bytes.lock().expect("no panic")[at..][..out.len()]);
        Ok(())
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault> {
        let at = offset(addr)?;
        let there = self.there(at, data.len());
        if there == 0 {
            return Err(MemoryFault);
        }
        self.bytes.lock().expect("no panic")[at..][..there].copy_from_slice(&data[..there]);
        if there < data.len() {
            Err(MemoryFault)
        } else {
            Ok(())
        }
    }

    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault> {
        let mut word = [0; 8];
        self.read(addr, &mut word)?;
        let found = u64::from_ne_bytes(word);
        if let Some(word) = change(found) {
            self.write(addr, &word.to_ne_bytes())?;
        }
        Ok(found)
    }
}

fn rights() -> Access {
    Access::LOCAL_WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_WRITE
        | Access::REMOTE_ATOMIC
        | Access::MW_BIND
}

/// Registers the pages at one side, explicitly or as part of the address space.
fn register(pair: &mut Pair, side: usize, pages: &Arc<Pages>, implicit: bool) -> u32 {
    let accessor: Arc<dyn FaultSafe> = pages.clone();
    let len = pages.bytes.lock().expect("no panic").len() as u64;
    let memory = match implicit {
        // SAFETY: the accessor touches no memory but its own.
        true => unsafe { Memory::whole_address_space(accessor) },
        // SAFETY: as above.
        false => unsafe { Memory::on_demand(BASE, len, accessor) },
    };
    let node = &mut pair.nodes[side];
    let registered = node.nic.register_memory(node.pd, memory, None, rights());
    registered.expect("registered")
}

fn sge(lkey: u32, at: usize, len: usize) -> Sge {
    Sge {
        addr: BASE + at as u64,
        length: u32::try_from(len).expect("small"),
        lkey,
    }
}

fn remote(rkey: u32, at: usize) -> RemoteAddr {
    RemoteAddr {
        addr: BASE + at as u64,
        rkey,
    }
}

/// While everything is mapped, such a region is like any other.
#[test]
fn mapped_pages_are_like_any_memory() {
    for implicit in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let (near, far) = (Pages::new(4), Pages::new(4));
        let lkey = register(&mut pair, A, &near, implicit);
        let rkey = register(&mut pair, B, &far, implicit);
        let data = pattern(3, 9000);
        near.bytes.lock().expect("no panic")[..9000].copy_from_slice(&data);
        pair.post(
            A,
            1,
            SendOp::Write(remote(rkey, 100)),
            &[sge(lkey, 0, 9000)],
        );
        pair.run();
        pair.assert_sent(A, &[1]);
        assert!(far.bytes.lock().expect("no panic")[100..9100] == data);
        pair.post(
            A,
            2,
            SendOp::Read(remote(rkey, 600)),
            &[sge(lkey, 10_000, 5000)],
        );
        pair.post_recv(B, 7, &[sge(rkey, 0, 9000)]);
        pair.post(A, 3, SendOp::Send, &[sge(lkey, 0, 9000)]);
        pair.run();
        pair.assert_sent(A, &[2, 3]);
        pair.assert_received(B, &[7]);
        assert!(near.bytes.lock().expect("no panic")[10_000..15_000] == data[500..5500]);
        assert!(far.bytes.lock().expect("no panic")[..9000] == data);
    }
}

/// A peer that accesses a hole is denied access; the target keeps working.
// shows: 10.6-on-demand
#[test]
fn a_hole_is_a_remote_access_error_to_the_peer() {
    for (write, implicit) in [(true, false), (true, true), (false, false), (false, true)] {
        for hole in 0..3 {
            let mut pair = Pair::new(Setup::default());
            let local = pair.mem(A, 3 * PAGE);
            local.write(0, &[1; 3 * PAGE]);
            let pages = Pages::new(3);
            let rkey = register(&mut pair, B, &pages, implicit);
            pages.unmap(hole);
            let op = match write {
                true => SendOp::Write(remote(rkey, 0)),
                false => SendOp::Read(remote(rkey, 0)),
            };
            pair.post(A, 1, op, &[local.sge(0, 3 * PAGE)]);
            pair.run();
            pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
            let bytes = pages.bytes.lock().expect("no panic");
            let before = &bytes[..hole * PAGE];
            assert!(before.iter().all(|byte| *byte == u8::from(write)));
            assert!(bytes[hole * PAGE..].iter().all(|byte| *byte == 0));
        }
    }
}

/// A page that is unmapped in the middle of a message.
// shows: 10.6-on-demand
#[test]
fn a_page_may_vanish_in_the_middle_of_a_message() {
    let mut pair = Pair::new(Setup::default());
    let len = 100 * PAGE;
    let local = pair.mem(A, len);
    let pages = Pages::new(100);
    let rkey = register(&mut pair, B, &pages, false);
    pair.post(A, 1, SendOp::Write(remote(rkey, 0)), &[local.sge(0, len)]);
    pair.run_until(|pair| pair.links[A].log.len() >= 100);
    pages.unmap(99);
    pair.run();
    pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
}

/// A hole in a request's own memory is a local protection error.
// shows: 10.6-on-demand
#[test]
fn a_hole_in_local_memory_is_a_protection_error() {
    for read in [true, false] {
        let mut pair = Pair::new(Setup::default());
        let target = pair.mem(B, 3 * PAGE);
        let pages = Pages::new(3);
        let lkey = register(&mut pair, A, &pages, false);
        pages.unmap(2);
        let op = match read {
            true => SendOp::Read(target.remote(0)),
            false => SendOp::Write(target.remote(0)),
        };
        pair.post(A, 1, op, &[sge(lkey, 0, 3 * PAGE)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, LocalProtectionError)]);
    }
}

/// A hole in a receive: protection error at the responder, operation error at the requester
/// (9.9.3).
#[test]
fn a_hole_in_a_receive_fails_both_ends() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 3 * PAGE);
    let pages = Pages::new(3);
    let lkey = register(&mut pair, B, &pages, true);
    pages.unmap(1);
    pair.post_recv(B, 7, &[sge(lkey, 0, 3 * PAGE)]);
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 3 * PAGE)]);
    pair.run();
    pair.assert_sent_as(A, &[(1, RemoteOperationError)]);
    pair.assert_received_as(B, &[(7, LocalProtectionError)]);
}

/// A window opens a part of an implicit region, and no more of it.
#[test]
fn windows_cut_everything_down_to_size() {
    for (at, len, status) in [
        (PAGE, 100, Success),
        (PAGE + 99, 1, Success),
        (PAGE + 100, 1, RemoteAccessError),
        (PAGE - 1, 1, RemoteAccessError),
    ] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 100);
        let pages = Pages::new(3);
        let lkey = register(&mut pair, B, &pages, true);
        let node = &mut pair.nodes[B];
        let window = node.nic.alloc_mw(node.pd, MwType::Type2);
        let bind = MwBind {
            window: window.expect("a window"),
            key: 3,
            lkey,
            addr: BASE + PAGE as u64,
            len: 100,
            access: Access::REMOTE_WRITE,
            zero_based: false,
        };
        pair.post(B, 1, SendOp::BindMw(bind), &[]);
        pair.run();
        let to = remote(bind.window.rkey(3), at);
        pair.post(A, 1, SendOp::Write(to), &[local.sge(0, len)]);
        pair.run();
        pair.assert_sent_as(A, &[(1, status)]);
    }
}

/// A comparison that fails writes nothing, not even the previous value.
// shows: 10.6-on-demand-atomics
#[test]
fn on_demand_regions_have_atomics() {
    for implicit in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 8);
        let pages = Pages::new(2);
        let rkey = register(&mut pair, B, &pages, implicit);
        let mut perform = |pages: &Arc<Pages>, op| {
            pair.post(A, 1, op, &[local.sge(0, 8)]);
            pair.run();
            pair.assert_sent(A, &[1]);
            let found = u64::from_ne_bytes(local.read(0, 8).try_into().expect("8 bytes"));
            let bytes = pages.bytes.lock().expect("no panic");
            let now = u64::from_ne_bytes(bytes[16..24].try_into().expect("8 bytes"));
            (found, now)
        };
        let target = remote(rkey, 16);
        let add = SendOp::FetchAdd {
            remote: target,
            add: 7,
        };
        assert_eq!(perform(&pages, add), (0, 7));
        let swap = |compare, swap| SendOp::CompareSwap {
            remote: target,
            compare,
            swap,
        };
        assert_eq!(perform(&pages, swap(7, 1)), (7, 1));
        assert_eq!(perform(&pages, swap(7, 2)), (1, 1));
        let add = u64::MAX;
        assert_eq!(
            perform(
                &pages,
                SendOp::FetchAdd {
                    remote: target,
                    add
                }
            ),
            (1, 0)
        );
        local.write(0, &9_u64.to_ne_bytes());
        assert_eq!(perform(&pages, SendOp::AtomicWrite(target)), (9, 9));
    }
}

/// An atomic on a hole is denied, as is one on a word that is not aligned in memory, whatever its
/// address for peers.
// shows: 10.6-on-demand-atomics
#[test]
fn an_atomic_needs_a_word_that_is_there() {
    for (hole, askew) in [(true, 0), (false, 4)] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 8);
        let pages = Pages::new(1);
        if hole {
            pages.unmap(0);
        }
        let node = &mut pair.nodes[B];
        let at = BASE + askew;
        // SAFETY: the accessor touches no memory but its own.
        let memory = unsafe { Memory::on_demand(at, 64, pages.clone()) };
        let key = node
            .nic
            .register_memory(node.pd, memory, Some(BASE), rights());
        let target = remote(key.expect("registered"), 0);
        pair.post(
            A,
            1,
            SendOp::FetchAdd {
                remote: target,
                add: 7,
            },
            &[local.sge(0, 8)],
        );
        pair.run();
        pair.assert_sent_as(A, &[(1, RemoteAccessError)]);
        assert!(
            pages
                .bytes
                .lock()
                .expect("no panic")
                .iter()
                .all(|b| *b == 0)
        );
    }
}

/// Addresses at the very end of the address space don't wrap.
#[test]
fn the_last_addresses_are_out_of_reach() {
    for addr in [u64::MAX, u64::MAX - 7, u64::MAX - 8, 0] {
        let mut pair = Pair::new(Setup::default());
        let local = pair.mem(A, 8);
        let pages = Pages::new(1);
        let rkey = register(&mut pair, B, &pages, true);
        let to = RemoteAddr { addr, rkey };
        pair.post(A, 1, SendOp::Write(to), &[local.sge(0, 8)]);
        pair.run();
        let statuses: Vec<WcStatus> = pair.nodes[A].sent().iter().map(|c| c.status).collect();
        assert_eq!(statuses, [RemoteAccessError], "{addr:#x}");
    }
}
