//! Memory that processes share.

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{OsStr, c_void};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The maximum number of devices that are counted while they are open. The bytes of further devices
/// are counted when they are closed.
pub(super) const SLOTS: usize = 2000;

/// The magic number `roce-ta3`, for this layout.
const MAGIC: u64 = u64::from_ne_bytes(*b"roce-ta3");

/// The lowest number for the descriptor. Shells and programs do not use such high descriptors by
/// number.
const MIN_DESCRIPTOR: i32 = 600;

/// The payload bytes sent and received, the number of packets, and the number of packets that took lanes.
pub(super) type Traffic = [AtomicU64; 4];

/// The layout of the memory. Every bit pattern is valid, whatever other processes write.
#[repr(C)]
pub(super) struct Page {
    magic: AtomicU64,
    pub(super) processes: AtomicU64,
    pub(super) devices_opened: AtomicU64,
    /// How often a process has listed devices and found some.
    pub(super) lists: AtomicU64,
    pub(super) qps: AtomicU64,
    pub(super) connections: AtomicU64,
    /// That of devices that have been closed.
    pub(super) traffic: Traffic,
    pub(super) slots: [Slot; SLOTS],
}

#[repr(C)]
pub(super) struct Slot {
    /// The process ID; 0 if the slot is free. Slots of processes that were killed stay in use.
    pub(super) owner: AtomicU32,
    pub(super) traffic: Traffic,
}

#[derive(Debug)]
pub(super) struct Memory(NonNull<c_void>);

// SAFETY: it gives access only to atomic values.
#[expect(unsafe_code)]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[expect(unsafe_code)]
unsafe impl Sync for Memory {}

impl Memory {
    /// Creates the memory, all zeros.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(c"roce-tally", flags)?;
        let length = i64::try_from(size_of::<Page>()).map_err(io::Error::other)?;
        nix::unistd::ftruncate(&file, length)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let memory = Self::map(&file)?;
        memory.page().magic.store(MAGIC, Ordering::Relaxed);
        Ok((memory, file))
    }

    /// Maps memory that another process has created.
    pub(super) fn open(path: &OsStr) -> io::Result<Self> {
        let mut options = File::options();
        let options = options.read(true).write(true);
        // Opening must not block, whatever the path leads to.
        let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        if file.metadata()?.len() != size_of::<Page>() as u64 {
            return Err(refused("its size is wrong"));
        }
        // If another process truncated the file, an access beyond its end would kill this process.
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(refused("it can be truncated"));
        }
        let memory = Self::map(&file)?;
        if memory.page().magic.load(Ordering::Relaxed) != MAGIC {
            return Err(refused("it has another version"));
        }
        Ok(memory)
    }

    #[expect(unsafe_code)]
    fn map(file: impl AsFd) -> io::Result<Self> {
        let length = const { NonZeroUsize::new(size_of::<Page>()).expect("it is not empty") };
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no existing mapping is replaced, and the file is as long as a `Page` and can't
        // get shorter.
        let at = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, 0)? };
        Ok(Self(at))
    }

    #[expect(unsafe_code)]
    pub(super) fn page(&self) -> &Page {
        // SAFETY: the mapping begins at a page boundary, has the length of a `Page`, and stays
        // until this is dropped. Every bit pattern is a valid `Page`, and all access to it is
        // atomic.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for Memory {
    #[expect(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference outlives `self`.
        let _ = unsafe { munmap(self.0, size_of::<Page>()) };
    }
}

/// Duplicates the descriptor into one that survives `exec`.
#[expect(unsafe_code)]
pub(super) fn inheritable(file: &OwnedFd) -> io::Result<OwnedFd> {
    let copy = fcntl(file, FcntlArg::F_DUPFD(MIN_DESCRIPTOR))
        .or_else(|_| fcntl(file, FcntlArg::F_DUPFD(3)))?;
    // SAFETY: the descriptor was just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
