//! The memory of a ring.

use crate::counters::Counters;
use nix::errno::Errno;
use roce_port::fork::NotShared;
use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes of packets that a ring holds.
pub(crate) const RING_BYTES: usize = 1 << 19;
/// Bytes in front of the packets.
pub(crate) const HEADER_BYTES: usize = 1 << 14;
/// Bytes of the file.
const FILE_BYTES: usize = HEADER_BYTES + RING_BYTES;
/// The first bytes of the file: the format. Change them whenever it changes.
const MAGIC: u32 = 0x6c6e_0001;
/// What a ring's file must not do: change its size, or lose the seals that say so.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// The file system of a memfd without huge pages. Reading a huge page can fail with SIGBUS.
const TMPFS_MAGIC: libc::__fsword_t = 0x0102_1994;
const NAME: &CStr = c"roce-lane";

/// What lies in front of the packets.
#[derive(Debug)]
#[repr(C)]
struct Header {
    magic: AtomicU32,
    /// Set by the receiver before it accepts the ring: packets need their ICRC.
    wants_icrc: AtomicU32,
    /// The source address of all packets, as an IPv6 address.
    source: [AtomicU8; 16],
    counters: Counters,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// A ring's memory. The packets' part is mapped twice, back to back, so that no packet wraps.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Dropped before the memory is unmapped.
    not_shared: Option<NotShared>,
}

// SAFETY: all access goes through atomics and raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Bytes of address space.
    const BYTES: usize = HEADER_BYTES + 2 * RING_BYTES;

    /// A new ring for packets from `source`, and the file for its receiver.
    ///
    /// # Errors
    /// If the system refuses the memory or a descriptor.
    pub(crate) fn create(source: IpAddr) -> io::Result<(Self, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let fd = Errno::result(unsafe { libc::memfd_create(NAME.as_ptr(), flags) })?;
        // SAFETY: the call has just created it.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is a file's.
        Errno::result(unsafe { libc::ftruncate(fd, FILE_BYTES as libc::off_t) })?;
        // SAFETY: as above.
        Errno::result(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) })?;
        let mapping = Self::map(file.as_fd())?;
        let header = mapping.header();
        let source = match source {
            IpAddr::V4(source) => source.to_ipv6_mapped(),
            IpAddr::V6(source) => source,
        };
        for (place, byte) in header.source.iter().zip(source.octets()) {
            place.store(byte, Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok((mapping, file))
    }

    /// The ring in a file that another process has sent.
    ///
    /// # Errors
    /// If the file is not a ring's, or could cause signals when it is read.
    pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(ErrorKind::InvalidData, what);
        // SAFETY: this only asks; the descriptor is open.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(invalid("the ring's file can change its size"));
        }
        // SAFETY: plain integers, for which zero is valid.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the structure is ours.
        Errno::result(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) })?;
        // SAFETY: plain integers, for which zero is valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as for fstatfs.
        Errno::result(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) })?;
        if system.f_type != TMPFS_MAGIC {
            return Err(invalid("the ring's file has pages of another size"));
        }
        if stat.st_size != FILE_BYTES as libc::off_t {
            return Err(invalid("the ring's file is not one of a lane's size"));
        }
        let mapping = Self::map(file)?;
        if mapping.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(invalid("the ring has another format"));
        }
        Ok(mapping)
    }

    fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: an anonymous mapping at an address that the kernel chooses takes no memory in use.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::BYTES,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        let mut mapping = Self {
            start,
            not_shared: None,
        };
        mapping.map_part(file, 0, FILE_BYTES, 0)?;
        mapping.map_part(file, FILE_BYTES, RING_BYTES, HEADER_BYTES)?;
        // SAFETY: the range was mapped just now, and is unmapped after the value is dropped.
        mapping.not_shared = unsafe { NotShared::new(start.as_ptr(), Self::BYTES) };
        match mapping.not_shared {
            Some(_) => Ok(mapping),
            None => Err(ErrorKind::OutOfMemory.into()),
        }
    }

    /// Maps `len` bytes of the file from `from` on, `at` bytes behind the start.
    fn map_part(&self, file: BorrowedFd<'_>, at: usize, len: usize, from: usize) -> io::Result<()> {
        // SAFETY: the range lies in the mapping that this value owns.
        let mapped = unsafe {
            libc::mmap(
                self.start.as_ptr().add(at).cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                from as libc::off_t,
            )
        };
        match mapped {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a page, zeroed or written by the other end, and any bytes are
        // valid atomics. It lives as long as `self`.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.header().counters
    }

    /// The address of the packet byte at this position of the ring. From there, [`RING_BYTES`] bytes follow.
    #[inline]
    pub(crate) fn at(&self, position: u64) -> *mut u8 {
        let offset = position as usize & (RING_BYTES - 1);
        // SAFETY: the offset is less than the length of the first of the two mappings.
        unsafe { self.start.as_ptr().add(HEADER_BYTES + offset) }
    }

    /// The source address of all packets.
    pub(crate) fn source(&self) -> IpAddr {
        let bytes = self.header().source.each_ref();
        let bytes = bytes.map(|byte| byte.load(Ordering::Relaxed));
        IpAddr::from(bytes).to_canonical()
    }

    /// Whether the receiver wants the ICRC of packets.
    pub(crate) fn wants_icrc(&self) -> bool {
        self.header().wants_icrc.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_wants_icrc(&self, wants: bool) {
        self.header()
            .wants_icrc
            .store(wants.into(), Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.not_shared = None;
        // SAFETY: the value owns the range, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), Self::BYTES) };
    }
}
