//! Windows, inline data and all kinds of memory, over real sockets.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use roce_verbs::completion::WcOpcode;
use roce_verbs::memory::{
    DeregisterError, DeviceMemoryError, MAX_DEVICE_MEMORY_BYTES, Memory, MwType, ProcessMemory,
    ProgramMemory, ProgramRegion, ProgramRegionChange, ProgramRegionError, Registration,
};
use roce_verbs::work::{Flush, FlushPlacement, FlushSelectivity, PostError, SendFlags};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, ProtectionDomain,
    QpOptions, QueuePair, RecvRequest, RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
const PAGE: usize = 4096;

struct End {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair,
    gid_index: u8,
}

/// An address of the loopback network that no other test uses.
fn fresh_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    IpAddr::V4(Ipv4Addr::new(127, 192 | (high & 63), low, last))
}

fn open() -> End {
    let address = fresh_address();
    let device = Device::with_address(address).expect("loopback");
    let context = device.open().expect("opened");
    let entries = context.gids();
    let entry = entries.iter().find(|entry| entry.gid.ip() == address);
    let gid_index = entry.expect("the address has a GID").index;
    let pd = context.alloc_pd();
    let cq = context.create_cq(64);
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
    End {
        context,
        pd,
        cq,
        qp,
        gid_index,
    }
}

fn pair() -> (End, End) {
    let (a, b) = (open(), open());
    let from_a = a.qp.endpoint(a.gid_index).expect("endpoint");
    let from_b = b.qp.endpoint(b.gid_index).expect("endpoint");
    let options = ConnectOptions::default();
    a.qp.connect(a.gid_index, &from_b, &options)
        .expect("connected");
    b.qp.connect(b.gid_index, &from_a, &options)
        .expect("connected");
    (a, b)
}

impl End {
    fn done(&self) -> (WcStatus, WcOpcode) {
        let completion = self.cq.poll_for(TIMEOUT).expect("no overrun");
        let completion = completion.expect("completed");
        (completion.status, completion.opcode)
    }

    /// Posts the request, and waits for its completion.
    fn run(&self, op: SendOp, sges: &[Sge]) -> WcStatus {
        self.qp
            .post_send(&SendRequest::new(1, op, sges))
            .expect("posted");
        self.done().0
    }
}

fn bytes(region: &MemoryRegion, offset: usize, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    region.read(offset, &mut out).expect("in range");
    out
}

fn all_rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE
}

#[test]
fn a_window_of_type_2_is_bound_and_invalidated() {
    let (a, b) = pair();
    let source = a.pd.allocate(PAGE, Access::empty()).expect("allocated");
    source.write(0, &[7; PAGE]).expect("in range");
    let access = Access::LOCAL_WRITE | Access::MW_BIND;
    let region = b.pd.allocate(PAGE, access).expect("allocated");
    let window = b.pd.alloc_mw(MwType::Type2).expect("allocated");
    let view = region.window(100, 1000, Access::REMOTE_WRITE);
    let view = view.expect("in range").zero_based();
    for key in [1, 2, 255] {
        assert_eq!(b.run(window.bind(key, &view), &[]), WcStatus::Success);
        let local = source.slice(0, 1000).expect("in range");
        let remote = window.remote(key, &view, 0);
        assert_eq!(a.run(SendOp::Write(remote), &[local]), WcStatus::Success);
        assert_eq!(bytes(&region, 100, 1000), [7; 1000]);
        b.qp.post_recv(&RecvRequest {
            wr_id: 9,
            sges: &[],
        })
        .expect("posted");
        let give_back = SendOp::SendInvalidate(window.rkey(key));
        assert_eq!(a.run(give_back, &[]), WcStatus::Success);
        assert_eq!(b.done(), (WcStatus::Success, WcOpcode::Recv));
    }
    assert_eq!(b.run(window.bind(3, &view), &[]), WcStatus::Success);
    assert_eq!(b.run(window.invalidate(3), &[]), WcStatus::Success);
    let late = SendOp::Write(window.remote(3, &view, 0));
    let local = source.slice(0, 8).expect("in range");
    assert_eq!(a.run(late, &[local]), WcStatus::RemoteAccessError);
}

#[test]
fn bind_window_binds_a_window_of_type_1() {
    let (a, b) = pair();
    let sink = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let region = b.pd.allocate(PAGE, Access::MW_BIND).expect("allocated");
    region.write(0, &[3; PAGE]).expect("in range");
    let window = b.pd.alloc_mw(MwType::Type1).expect("allocated");
    let view = region.window(0, PAGE, Access::REMOTE_READ);
    let view = view.expect("in range");
    let mut last = None;
    for _ in 0..3 {
        let key = b.qp.bind_window(5, &window, Some(&view)).expect("posted");
        assert_eq!(b.done(), (WcStatus::Success, WcOpcode::BindMw));
        assert_ne!(Some(key), last);
        last = Some(key);
        let local = sink.slice(0, 100).expect("in range");
        let remote = window.remote(key, &view, 50);
        assert_eq!(a.run(SendOp::Read(remote), &[local]), WcStatus::Success);
        assert_eq!(bytes(&sink, 0, 100), [3; 100]);
    }
    // The region can't be deregistered while a window is bound to it.
    let (region, error) = region.deregister().expect_err("a window is bound");
    assert_eq!(error, DeregisterError::WindowsBound { windows: 1 });
    b.qp.bind_window(6, &window, None).expect("posted");
    assert_eq!(b.done().0, WcStatus::Success);
    assert!(region.deregister().is_ok());
}

/// Dropping the region ends the window's access before its memory is freed.
#[test]
fn a_window_does_not_outlive_its_region() {
    let (a, b) = pair();
    let sink = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let region = b.pd.allocate(PAGE, Access::MW_BIND).expect("allocated");
    let window = b.pd.alloc_mw(MwType::Type2).expect("allocated");
    let view = region.window(0, PAGE, Access::REMOTE_READ);
    let view = view.expect("in range");
    assert_eq!(b.run(window.bind(1, &view), &[]), WcStatus::Success);
    drop(region);
    let local = sink.slice(0, 8).expect("in range");
    let read = SendOp::Read(window.remote(1, &view, 0));
    assert_eq!(a.run(read, &[local]), WcStatus::RemoteAccessError);
}

#[test]
fn a_bad_binding_fails_the_qp() {
    let (_a, b) = pair();
    let region = b.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let window = b.pd.alloc_mw(MwType::Type2).expect("allocated");
    let view = region.window(0, 8, Access::REMOTE_READ).expect("in range");
    let status = b.run(window.bind(1, &view), &[]);
    assert_eq!(status, WcStatus::MemoryWindowBindError);
}

#[test]
fn inline_data_can_be_overwritten_at_once() {
    let (a, b) = pair();
    let source = a.pd.allocate(64, Access::empty()).expect("allocated");
    let target = b.pd.allocate(PAGE, all_rights()).expect("allocated");
    source.write(0, &[1; 64]).expect("in range");
    let sges = [source.all().expect("small")];
    let mut request = SendRequest::new(1, SendOp::Write(target.remote(0)), &sges);
    request.flags |= SendFlags::INLINE;
    a.qp.post_send(&request).expect("posted");
    source.write(0, &[2; 64]).expect("in range");
    assert_eq!(a.done().0, WcStatus::Success);
    assert_eq!(bytes(&target, 0, 64), [1; 64]);
    let from_anywhere = SendRequest::write((), target.remote(8)).id(2);
    a.qp.post_send(&from_anywhere.inline(b"anywhere"))
        .expect("posted");
    assert_eq!(a.done().0, WcStatus::Success);
    assert_eq!(bytes(&target, 8, 8), b"anywhere");
    let max = QpOptions::default().max_inline;
    let too_long = a.qp.post_send(&from_anywhere.inline(&vec![0; max + 1]));
    let bytes = max as u64 + 1;
    assert_eq!(too_long, Err(PostError::InlineTooLong { bytes, max }));
}

#[test]
fn device_memory_is_zero_based() {
    let (a, b) = pair();
    let memory = b.context.alloc_device_memory(1000, 0).expect("allocated");
    memory.copy_to(500, &[4; 100]).expect("in range");
    let region = memory.register(&b.pd, 500, 100, all_rights());
    let region = region.expect("registered");
    assert_eq!((region.addr(), region.len()), (0, 100));
    let sink = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let local = sink.slice(0, 100).expect("in range");
    // The registration keeps the memory alive.
    drop(memory);
    let read = SendOp::Read(region.remote(0));
    assert_eq!(a.run(read, &[local]), WcStatus::Success);
    assert_eq!(bytes(&sink, 0, 100), [4; 100]);
    let beyond = SendOp::Read(region.remote(1));
    assert_eq!(a.run(beyond, &[local]), WcStatus::RemoteAccessError);
    for (len, log2_alignment, expected) in [
        (0, 0, DeviceMemoryError::Empty),
        (
            usize::MAX,
            0,
            DeviceMemoryError::TooLarge {
                len: usize::MAX,
                max: MAX_DEVICE_MEMORY_BYTES,
            },
        ),
        (
            64,
            13,
            DeviceMemoryError::Alignment {
                log2_alignment: 13,
                max: 12,
            },
        ),
    ] {
        let refused = b.context.alloc_device_memory(len, log2_alignment);
        assert_eq!(refused.map(drop), Err(expected));
    }
    let memory = b.context.alloc_device_memory(64, 12).expect("allocated");
    let refused = |offset, len| Err(DeviceMemoryError::NotWords { offset, len });
    assert_eq!(memory.copy_to(62, &[1; 4]), refused(62, 4));
    assert_eq!(memory.copy_from(60, &mut [0; 3]), refused(60, 3));
    assert_eq!(memory.copy_from(60, &mut [0; 4]), Ok(()));
    assert!(matches!(
        memory.copy_to(64, &[1; 4]),
        Err(DeviceMemoryError::Range(_))
    ));
}

#[test]
fn reregistration_revokes_rights() {
    let (a, b) = pair();
    let mut region = b.pd.allocate(PAGE, all_rights()).expect("allocated");
    let sink = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let local = [sink.slice(0, 8).expect("in range")];
    let read = SendOp::Read(region.remote(0));
    assert_eq!(a.run(read, &local), WcStatus::Success);
    // A protection domain of another device is unknown to this one.
    assert!(region.reregister(Some(&a.pd), None).is_err());
    assert_eq!(a.run(read, &local), WcStatus::Success);
    region
        .reregister(None, Some(Access::LOCAL_WRITE))
        .expect("legal");
    assert_eq!(a.run(read, &local), WcStatus::RemoteAccessError);
}

#[test]
fn a_null_region_discards_and_supplies_zeros() {
    let (a, b) = pair();
    let target = b.pd.allocate(PAGE, all_rights()).expect("allocated");
    target.write(0, &[5; 300]).expect("in range");
    let sink = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
    let null =
        a.pd.register_memory(Memory::null(), None, Access::LOCAL_WRITE)
            .expect("registered");
    let sges = [
        sink.slice(0, 100).expect("in range"),
        null.slice(0, 100).expect("in range"),
        sink.slice(100, 100).expect("in range"),
    ];
    let read = SendOp::Read(target.remote(0));
    assert_eq!(a.run(read, &sges), WcStatus::Success);
    assert_eq!(
        bytes(&sink, 0, 300),
        [[5; 100], [5; 100], [0; 100]].concat()
    );
    assert_eq!(
        a.run(SendOp::Write(target.remote(0)), &sges),
        WcStatus::Success
    );
    assert_eq!(bytes(&target, 100, 100), [0; 100]);
}

#[test]
fn an_atomic_write_follows_a_flush() {
    let (a, b) = pair();
    let source = a.pd.allocate(PAGE, Access::empty()).expect("allocated");
    source.write(0, &[0x11; PAGE]).expect("in range");
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::FLUSH_GLOBAL;
    let target = b.pd.allocate(PAGE, access).expect("allocated");
    let data = source.slice(0, 1000).expect("in range");
    let word = source.slice(0, 8).expect("in range");
    let write = SendOp::Write(target.remote(8));
    let flush = SendOp::Flush(Flush {
        remote: target.remote(8),
        len: 1000,
        placement: FlushPlacement::GLOBAL_VISIBILITY,
        selectivity: FlushSelectivity::Range,
    });
    let flag = SendOp::AtomicWrite(target.remote(0));
    a.qp.post_sends(&[
        SendRequest::new(1, write, data),
        SendRequest::new(2, flush, ()),
        SendRequest::new(3, flag, word),
    ])
    .expect("posted");
    // A reader that sees the word also sees the data.
    let cell = target.atomic_u64(0).expect("aligned");
    let end = std::time::Instant::now() + TIMEOUT;
    while cell.load(Ordering::Acquire) == 0 {
        assert!(std::time::Instant::now() < end, "the word did not come");
        a.context.drive();
        b.context.drive();
    }
    assert_eq!(bytes(&target, 0, 1008), [0x11; 1008]);
    let opcodes = [WcOpcode::RdmaWrite, WcOpcode::Flush, WcOpcode::AtomicWrite];
    for opcode in opcodes {
        assert_eq!(a.done(), (WcStatus::Success, opcode));
    }
}

/// Anonymous pages, which can be unmapped while they are part of a region.
struct Pages {
    base: NonNull<c_void>,
    len: usize,
}

/// Where the next pages go: far from where the kernel puts other mappings, so that another thread's
/// mapping does not take the place of pages that a test has unmapped.
static NEXT: AtomicUsize = AtomicUsize::new(1 << 38);

impl Pages {
    fn map(pages: usize) -> Self {
        let len = pages * PAGE;
        let size = NonZeroUsize::new(len).expect("some");
        let (prot, flags) = (
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE,
        );
        let at = NEXT.fetch_add(1 << 30, Ordering::Relaxed);
        let at = NonZeroUsize::new(at);
        // SAFETY: a fresh mapping: the address is a hint, and nothing is replaced.
        let base = unsafe { mmap_anonymous(at, size, prot, flags) }.expect("mapped");
        Self { base, len }
    }

    fn addr(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Makes the pages read-only.
    fn protect(&self) {
        // SAFETY: the pages are ours, and nothing borrows them.
        unsafe { mprotect(self.base, self.len, ProtFlags::PROT_READ) }.expect("protected");
    }

    fn unmap(&self) {
        // SAFETY: as above; later accesses cope with unmapped pages.
        unsafe { munmap(self.base, self.len) }.expect("unmapped");
    }

    fn register(&self, pd: &ProtectionDomain) -> Registration {
        let accessor = ProcessMemory::of_this_process().expect("allowed");
        // SAFETY: no reference to these pages is ever made.
        let memory = unsafe { Memory::on_demand(self.addr(), self.len as u64, accessor) };
        pd.register_memory(memory, None, all_rights())
            .expect("registered")
    }
}

#[test]
fn a_peer_that_writes_to_unmapped_pages_is_denied() {
    for protect in [false, true] {
        let (a, b) = pair();
        let source = a.pd.allocate(PAGE, Access::LOCAL_WRITE).expect("allocated");
        source.write(0, &[6; PAGE]).expect("in range");
        let local = [source.all().expect("small")];
        let pages = Pages::map(4);
        let region = pages.register(&b.pd);
        let write = SendOp::Write(region.remote(100));
        assert_eq!(a.run(write, &local), WcStatus::Success);
        let read = SendOp::Read(region.remote(100));
        source.write(0, &[0; PAGE]).expect("in range");
        assert_eq!(a.run(read, &local), WcStatus::Success);
        assert_eq!(bytes(&source, 0, PAGE), [6; PAGE]);
        if protect {
            pages.protect();
        } else {
            pages.unmap();
        }
        assert_eq!(a.run(write, &local), WcStatus::RemoteAccessError);
    }
}

/// The pages are unmapped while WRITEs to them are in flight.
#[test]
fn pages_may_be_unmapped_during_traffic() {
    let (a, b) = pair();
    let len = 1 << 20;
    let source = a.pd.allocate(len, Access::empty()).expect("allocated");
    let pages = Pages::map(len / PAGE);
    let region = pages.register(&b.pd);
    let write = SendOp::Write(region.remote(0));
    let sges = [source.all().expect("fits")];
    // When the pages are unmapped, some WRITEs have arrived and some have not.
    for wr_id in 0..16 {
        a.qp.post_send(&SendRequest::new(wr_id, write, &sges))
            .expect("posted");
    }
    assert_eq!(a.done().0, WcStatus::Success);
    pages.unmap();
    let statuses: Vec<WcStatus> = (1..16).map(|_| a.done().0).collect();
    let failed = statuses
        .iter()
        .position(|status| *status != WcStatus::Success);
    if let Some(first) = failed {
        assert_eq!(statuses[first], WcStatus::RemoteAccessError);
        let flushed = |status: &WcStatus| *status == WcStatus::WorkRequestFlushed;
        assert!(statuses[first + 1..].iter().all(flushed), "{statuses:?}");
    } else {
        // All 16 MiB arrived before this thread unmapped the pages. The next WRITE must fail.
        assert_eq!(a.run(write, &sges), WcStatus::RemoteAccessError);
    }
}

/// One region for the whole address space, used locally: mapped memory can be sent; unmapped memory
/// makes the request fail.
#[test]
fn one_region_covers_the_whole_address_space() {
    let (a, b) = pair();
    let accessor = ProcessMemory::of_this_process().expect("allowed");
    // SAFETY: only the pages below are accessed through it, and nothing borrows them.
    let memory = unsafe { Memory::whole_address_space(accessor) };
    let everything = a.pd.register_memory(memory, None, Access::LOCAL_WRITE);
    let everything = everything.expect("registered");
    let pages = Pages::map(2);
    let target = b.pd.allocate(2 * PAGE, all_rights()).expect("allocated");
    target.write(0, &[8; PAGE]).expect("in range");
    let local = [everything
        .slice(pages.addr(), PAGE as u64)
        .expect("below the end")];
    let at = |offset| -> RemoteAddr { target.remote(offset) };
    assert_eq!(a.run(SendOp::Read(at(0)), &local), WcStatus::Success);
    let there = PAGE as u64;
    assert_eq!(a.run(SendOp::Write(at(there)), &local), WcStatus::Success);
    assert_eq!(bytes(&target, PAGE, PAGE), [8; PAGE]);
    pages.unmap();
    let status = a.run(SendOp::Write(at(0)), &local);
    assert_eq!(status, WcStatus::LocalProtectionError);
}

impl Pages {
    fn program(&self) -> ProgramMemory {
        ProgramMemory {
            addr: self.addr() as usize,
            len: self.len,
        }
    }
}

fn register(
    pd: &ProtectionDomain,
    memory: ProgramMemory,
    access: Access,
) -> Result<std::sync::Arc<ProgramRegion>, ProgramRegionError> {
    // SAFETY: no reference to these pages is ever made, and they stay mapped.
    unsafe { ProgramRegion::register(pd, memory, false, 0x1000, access) }
}

/// A region gets rights only for memory that has them, and keeps what it had if it does not get them.
#[test]
fn a_change_checks_the_memory_as_a_registration_does() {
    let end = open();
    let pages = Pages::map(1);
    let (reads, writes) = (Access::REMOTE_READ, Access::LOCAL_WRITE);
    pages.protect();
    let refused = register(&end.pd, pages.program(), writes);
    assert!(matches!(refused, Err(ProgramRegionError::NotMapped(_))));
    let region = register(&end.pd, pages.program(), reads).expect("it is readable");
    let access = |access| ProgramRegionChange {
        access: Some(access),
        ..ProgramRegionChange::default()
    };
    let change = |change: &ProgramRegionChange<'_>| {
        // SAFETY: the new memory stays mapped until the region is deregistered, and nothing borrows it.
        unsafe { region.change(change) }
    };
    let refused = change(&access(writes));
    assert!(matches!(refused, Err(ProgramRegionError::NotMapped(_))));
    assert_eq!(region.with(Registration::access).expect("open"), reads);
    let empty = ProgramRegionChange {
        memory: Some(ProgramMemory { addr: 0, len: 0 }),
        ..ProgramRegionChange::default()
    };
    let refused = change(&empty);
    assert!(matches!(refused, Err(ProgramRegionError::Empty)));
    assert_eq!(region.with(Registration::addr).expect("open"), 0x1000);

    let other = Pages::map(2);
    let moved = ProgramRegionChange {
        memory: Some(other.program()),
        ..access(writes)
    };
    change(&moved).expect("it is writable");
    let known = region.with(|known| (known.addr(), known.len(), known.access()));
    assert_eq!(
        known.expect("open"),
        (other.addr(), other.len as u64, writes)
    );
    region.deregister().expect("no windows");
    let closed = change(&access(reads));
    assert!(matches!(closed, Err(ProgramRegionError::Closed)));
    [pages, other].iter().for_each(Pages::unmap);
}

#[test]
fn memory_of_a_descriptor_is_registered_as_far_as_it_reaches() {
    let end = open();
    let file = memfd_create("memory", MFdFlags::MFD_CLOEXEC).expect("a file");
    nix::unistd::ftruncate(&file, 2 * PAGE as i64).expect("longer");
    let register = |place, iova| {
        ProgramRegion::of_descriptor(&end.pd, &file, place, iova, Access::LOCAL_WRITE)
    };
    let lead = PAGE as u64 / 2;
    let region = register((lead, PAGE), lead).expect("registered");
    let known = region.with(|known| (known.addr(), known.len()));
    assert_eq!(known.expect("open"), (lead, PAGE as u64));
    let beyond = [(lead, 2 * PAGE), (0, 0), (u64::MAX - 1, PAGE)];
    for (place, iova) in beyond.map(|place| (place, place.0)) {
        let refused = register(place, iova);
        assert!(
            matches!(refused, Err(ProgramRegionError::Range)),
            "{place:?}"
        );
    }
    let elsewhere = register((lead, PAGE), 0);
    assert!(matches!(elsewhere, Err(ProgramRegionError::Range)));
}
