//! FLUSH to persistence of real files.

use roce_verbs::memory::{
    Buffer, Durable, FileRegion, FileRegionError, Memory, NotDurable, NotPersistent,
    ProtectionDomain,
};
use roce_verbs::work::{Flush, FlushPlacement, FlushSelectivity};
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, QpOptions, QueuePair,
    RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
use std::fs::{File, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const PAGE: usize = 4096;
const PAGES: usize = 16;

/// An open device with a QP for each peer.
struct End {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qps: Vec<QueuePair>,
    gid_index: u8,
    source: MemoryRegion,
}

fn open(qps: usize) -> End {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    let address = IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last));
    let device = Device::with_address(address).expect("loopback");
    let context = device.open().expect("opened");
    let gids = context.gids();
    let entry = gids.iter().find(|entry| entry.gid.ip() == address);
    let gid_index = entry.expect("the address has a GID").index;
    let pd = context.alloc_pd();
    let cq = context.create_cq(64);
    let qp = || pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
    End {
        qps: (0..qps).map(|_| qp()).collect(),
        source: pd.allocate(PAGE, Access::empty()).expect("memory"),
        context,
        pd,
        cq,
        gid_index,
    }
}

/// Two ends, each QP of which is connected to that of the same number.
fn pair(qps: usize) -> (End, End) {
    let (a, b) = (open(qps), open(qps));
    for (from, to) in [(&a, &b), (&b, &a)] {
        for (ours, theirs) in from.qps.iter().zip(&to.qps) {
            let remote = theirs.endpoint(to.gid_index).expect("an endpoint");
            let connected = ours.connect(from.gid_index, &remote, &ConnectOptions::default());
            connected.expect("connected");
        }
    }
    (a, b)
}

/// A file of zeros on a disk.
fn file() -> (tempfile::TempDir, File) {
    // Unlike /tmp, this folder is on a disk, and every user can write to it.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).write(true);
    let file = options.open(folder.path().join("memory")).expect("a file");
    file.set_len((PAGES * PAGE) as u64).expect("longer");
    (folder, file)
}

fn rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::FLUSH_PERSISTENT
}

fn flush(remote: RemoteAddr, len: usize, selectivity: FlushSelectivity) -> SendOp {
    SendOp::Flush(Flush {
        remote,
        len: u32::try_from(len).expect("short"),
        placement: FlushPlacement::PERSISTENCE,
        selectivity,
    })
}

impl End {
    fn register(&self, file: &File) -> FileRegion {
        let region = self.pd.register_file(file, 0, PAGES * PAGE, rights());
        region.expect("registered")
    }

    fn post(&self, qp: usize, wr_id: u64, op: SendOp, len: usize) {
        let local = self.source.slice(0, len).expect("in range");
        let elements: &[Sge] = if len > 0 { &[local] } else { &[] };
        let request = SendRequest::new(wr_id, op, elements);
        self.qps[qp].post_send(&request).expect("posted");
    }

    fn done(&self) -> (u64, WcStatus) {
        let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
        let done = done.expect("completed");
        (done.wr_id, done.status)
    }

    fn flush(&self, op: SendOp) -> WcStatus {
        self.post(0, 7, op, 0);
        self.done().1
    }

    /// Writes a byte to each page of the peer's file.
    fn write_each_page(&self, to: &FileRegion, value: u8) {
        self.source.write(0, &[value]).expect("in range");
        for page in 0..PAGES {
            let op = SendOp::Write(to.remote((page * PAGE) as u64));
            self.post(0, 1, op, 1);
            assert_eq!(self.done(), (1, WcStatus::Success));
        }
    }
}

/// The bytes that this process has written to its mappings of a file, and that are not on the disk, by
/// the kernel's account.
fn dirty_bytes(file: &File) -> usize {
    let inode = file.metadata().expect("a file").ino().to_string();
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
    let (mut is_mapped, mut is_ours, mut dirty) = (false, false, 0);
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["Shared_Dirty:" | "Private_Dirty:", kilobytes, _] if is_ours => {
                dirty += kilobytes.parse::<usize>().expect("a number") << 10;
            }
            [_, _, _, _, of, ..] if words[0].contains('-') => {
                is_ours = of == inode;
                is_mapped |= is_ours;
            }
            _ => {}
        }
    }
    assert!(is_mapped, "the file is mapped");
    dirty
}

/// The kernel has written all pages of the flushed range to the disk when the FLUSH is answered.
#[test]
fn what_was_flushed_is_on_the_disk() {
    let (a, b) = pair(1);
    let (_folder, file) = file();
    let region = b.register(&file);
    a.write_each_page(&region, 7);
    assert!(dirty_bytes(&file) > 0, "the kernel writes later");
    let middle = region.remote(PAGE as u64 - 1);
    let range = flush(middle, PAGE + 2, FlushSelectivity::Range);
    assert_eq!(a.flush(range), WcStatus::Success);
    assert!(dirty_bytes(&file) <= (PAGES - 3) * PAGE);
    let whole = flush(region.remote(0), 0, FlushSelectivity::Region);
    assert_eq!(a.flush(whole), WcStatus::Success);
    assert_eq!(dirty_bytes(&file), 0);
    let mut byte = [0];
    let at = 5 * PAGE as u64;
    file.read_exact_at(&mut byte, at).expect("read");
    assert_eq!(byte, [7]);
}

#[test]
fn a_file_region_is_read_and_written_locally() {
    let (_, b) = pair(1);
    let (_folder, file) = file();
    let region = b.register(&file);
    let at = PAGES * PAGE - 5;
    region.write(at, b"hello").expect("in range");
    let mut found = [0; 5];
    region.read(at, &mut found).expect("in range");
    assert_eq!(&found, b"hello");
    assert!(dirty_bytes(&file) > 0);
    region.persist(at, 5).expect("durable");
    assert_eq!(dirty_bytes(&file), 0);
    for beyond in [at + 1, usize::MAX] {
        assert!(region.write(beyond, b"hello").is_err());
        assert!(region.read(beyond, &mut found).is_err());
        assert!(region.persist(beyond, 5).is_err());
    }
    file.set_len(PAGE as u64).expect("shorter");
    let missing = region.read(at, &mut found).expect_err("no longer there");
    assert_eq!(missing.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_region_has_only_the_rights_it_was_registered_with() {
    let (_, b) = pair(1);
    let (_folder, file) = file();
    let region = b.pd.register_file(&file, 0, PAGE, Access::REMOTE_READ);
    let region = region.expect("registered");
    region.write(0, &[1]).expect_err("no LOCAL_WRITE");
    region.persist(0, 1).expect_err("no FLUSH_PERSISTENT");
    let mut byte = [1];
    region.read(0, &mut byte).expect("may be read");
    assert_eq!(byte, [0]);
}

#[test]
fn a_file_that_does_not_fit_is_refused() {
    let (_, b) = pair(1);
    let (_folder, file) = file();
    let register = |offset, len| b.pd.register_file(&file, offset, len, rights());
    let misaligned = register(100, PAGE).expect_err("within a page");
    assert!(matches!(
        misaligned,
        FileRegionError::Misaligned { offset: 100, .. }
    ));
    for (offset, len) in [(0, 0), (0, PAGES * PAGE + 1), (PAGE as u64, PAGES * PAGE)] {
        let found = register(offset, len).expect_err("not in the file");
        assert!(matches!(found, FileRegionError::Length { .. }), "{found}");
    }
    assert!(register(PAGE as u64, (PAGES - 1) * PAGE).is_ok());
    let in_memory = tempfile::tempfile_in("/dev/shm").expect("a file");
    in_memory.set_len(PAGE as u64).expect("longer");
    let refused = b.pd.register_file(&in_memory, 0, PAGE, rights());
    let refused = refused.expect_err("nothing keeps it");
    let is_volatile = matches!(
        &refused,
        FileRegionError::NotPersistent(NotPersistent::Volatile { .. })
    );
    assert!(is_volatile, "{refused}");
    let visible = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let allowed = b.pd.register_file(&in_memory, 0, PAGE, visible);
    allowed.expect("without the right it is memory like any other");
}

/// Memory that becomes durable when a test lets it.
#[derive(Debug)]
struct Slow {
    asked: Mutex<Sender<u64>>,
    answers: Mutex<Receiver<Result<(), NotDurable>>>,
}

impl Durable for Slow {
    fn blocks(&self, _: u64) -> bool {
        true
    }

    fn persist(&self, offset: u64, _: u64) -> Result<(), NotDurable> {
        let asked = self.asked.lock().expect("no panic");
        asked.send(offset).expect("the test listens");
        let answers = self.answers.lock().expect("no panic");
        answers.recv().expect("the test answers")
    }
}

struct SlowMemory {
    registration: roce_verbs::memory::Registration,
    asked: Receiver<u64>,
    answers: Sender<Result<(), NotDurable>>,
}

fn slow_memory(end: &End) -> SlowMemory {
    let (ask, asked) = channel();
    let (answers, answered) = channel();
    let durable = Arc::new(Slow {
        asked: Mutex::new(ask),
        answers: Mutex::new(answered),
    });
    let buffer = Arc::new(Buffer::new(PAGE).expect("memory"));
    let memory = Memory::buffer(buffer).with_durable(durable);
    let registration = end.pd.register_memory(memory, None, rights());
    SlowMemory {
        registration: registration.expect("registered"),
        asked,
        answers,
    }
}

/// While one FLUSH waits, other QPs of the process communicate, and other FLUSHes are done.
#[test]
fn a_slow_disk_delays_only_its_own_qp() {
    let (a, b) = pair(3);
    let slow = slow_memory(&b);
    let other = slow_memory(&b);
    let whole =
        |memory: &SlowMemory| flush(memory.registration.remote(0), 0, FlushSelectivity::Region);
    a.post(0, 10, whole(&slow), 0);
    assert_eq!(slow.asked.recv_timeout(TIMEOUT), Ok(0));
    for wr_id in 0..100 {
        let op = SendOp::Write(slow.registration.remote(8));
        a.post(1, wr_id, op, 8);
        assert_eq!(a.done(), (wr_id, WcStatus::Success));
    }
    a.post(2, 20, whole(&other), 0);
    assert_eq!(other.asked.recv_timeout(TIMEOUT), Ok(0));
    other.answers.send(Ok(())).expect("it waits");
    assert_eq!(a.done(), (20, WcStatus::Success));
    slow.answers.send(Ok(())).expect("it waits");
    assert_eq!(a.done(), (10, WcStatus::Success));
    assert!(slow.asked.try_recv().is_err(), "executed once");
}

#[test]
fn a_failure_of_the_disk_is_no_success() {
    let (a, b) = pair(1);
    let slow = slow_memory(&b);
    let remote = slow.registration.remote(0);
    a.post(0, 1, flush(remote, 8, FlushSelectivity::Range), 0);
    assert_eq!(slow.asked.recv_timeout(TIMEOUT), Ok(0));
    slow.answers.send(Err(NotDurable)).expect("it waits");
    assert_eq!(a.done(), (1, WcStatus::RemoteOperationError));
    let failed = b.context.why(b.qps[0].qpn()).expect("it has failed");
    assert!(failed.to_string().contains("durable"), "{failed}");
}

/// Closing the device does not wait for the disk, and what ends afterwards does no harm.
#[test]
fn a_device_is_closed_while_a_flush_waits() {
    let (a, b) = pair(1);
    let slow = slow_memory(&b);
    let remote = slow.registration.remote(0);
    a.post(0, 1, flush(remote, 8, FlushSelectivity::Range), 0);
    assert_eq!(slow.asked.recv_timeout(TIMEOUT), Ok(0));
    let SlowMemory {
        registration,
        answers,
        ..
    } = slow;
    drop(registration);
    drop(b);
    answers.send(Ok(())).expect("it still waits");
}
