//! Memory that processes share.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{OsStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
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
    /// Creates the memory, all zeros, and a descriptor of it that survives `exec`.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(c"roce-tally", flags)?;
        let length = i64::try_from(size_of::<Page>()).map_err(io::Error::other)?;
        nix::unistd::ftruncate(&file, length)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let memory = Self::map(&file)?;
        memory.page().magic.store(MAGIC, Ordering::Relaxed);
        let number = file.as_raw_fd();
        let file = duplicate(number, libc::F_DUPFD, MIN_DESCRIPTOR)
            .or_else(|_| duplicate(number, libc::F_DUPFD, 3))?;
        Ok((memory, file))
    }

    /// Maps memory that another process has created, by its path `/proc/PID/fd/N`.
    ///
    /// A process of another user may not open the path, and in another PID namespace it leads elsewhere. But
    /// such a process has descriptor `N`, unless a program between the two has closed it.
    pub(super) fn open(path: &OsStr) -> io::Result<Self> {
        if let Ok(memory) = Self::inherited(path) {
            return Ok(memory);
        }
        let mut options = File::options();
        let options = options.read(true).write(true);
        // Opening must not block, whatever the path leads to.
        Self::check(&options.custom_flags(libc::O_NONBLOCK).open(path)?)
    }

    /// Maps this process's own descriptor of the path's number.
    fn inherited(path: &OsStr) -> io::Result<Self> {
        let number = Path::new(path).file_name().and_then(OsStr::to_str);
        let number: Option<i32> = number.and_then(|number| number.parse().ok());
        let number = number.ok_or(io::ErrorKind::InvalidInput)?;
        // Another thread may close the number, or open something else there, but can't change the copy.
        let copy = duplicate(number, libc::F_DUPFD_CLOEXEC, 0)?;
        Self::check(&File::from(copy))
    }

    /// Maps a file, if it is this memory. Nothing else is known about the file.
    fn check(file: &File) -> io::Result<Self> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        if file.metadata()?.len() != size_of::<Page>() as u64 {
            return Err(refused("its size is wrong"));
        }
        // If another process truncated the file, an access beyond its end would kill this process.
        let seals = SealFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GET_SEALS)?);
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(refused("it can be truncated"));
        }
        let memory = Self::map(file)?;
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

/// Duplicates a descriptor by `command`. The number may be anything.
#[expect(unsafe_code)]
fn duplicate(number: RawFd, command: c_int, from: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it reads no memory of this process, and fails if the descriptor is not open.
    let copy = unsafe { libc::fcntl(number, command, from) };
    let copy = Errno::result(copy)?;
    // SAFETY: the descriptor was just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
