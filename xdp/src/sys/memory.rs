//! Memory shared with the kernel.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A memory mapping, unmapped when this value is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    huge: bool,
}

// SAFETY: any thread may use the mapping, and safe methods only read it. A caller that writes must
// justify that itself (`bytes_mut`) or use atomics (`ring`).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes of zeroed memory, in huge pages if available.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let huge = len.next_multiple_of(HUGE_PAGE_BYTES);
        // With MAP_POPULATE, a lack of huge pages is an error of this call, and not a signal later.
        let in_huge = flags | libc::MAP_HUGETLB | libc::MAP_POPULATE;
        if let Ok(mut mapping) = Self::map(huge, in_huge, None, 0) {
            mapping.huge = true;
            return Ok(mapping);
        }
        Self::map(len, flags | libc::MAP_POPULATE, None, 0)
    }

    /// Maps a part of a descriptor's memory, such as a ring. Forked children don't have it, because
    /// a mapping keeps a socket alive.
    pub(crate) fn of_fd(fd: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let mapping = Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, Some(fd), offset)?;
        // SAFETY: the mapping is this value's; the advice changes nothing in this process.
        let advised =
            unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_DONTFORK) };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    fn map(
        len: usize,
        flags: libc::c_int,
        fd: Option<BorrowedFd<'_>>,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: with neither an address nor MAP_FIXED, the call changes no existing mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            start,
            len,
            huge: false,
        })
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is in huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.huge
    }

    /// The start address.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The bytes of `range`. Panics if it exceeds the mapping.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range is in the mapping, which lives as long as `self` and is initialised, at
        // least with zeroes. This process writes it only through `bytes_mut`, whose caller excludes
        // an overlap. The kernel writes only to chunks that it owns, and the queue does not read
        // those.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start).as_ptr(), range.len()) }
    }

    /// Prefetches bytes of the mapping. Affects only timing.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize, len: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            const LINE: usize = 64;
            for line in (at..at + len).step_by(LINE) {
                let line = self.start.as_ptr().wrapping_add(line).cast_const();
                // SAFETY: a prefetch reads and writes nothing, and it can't fault whatever
                // the address is; every x86-64 has the instruction.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (at, len);
    }

    /// The bytes of `range`, mutably. Panics if it exceeds the mapping.
    ///
    /// # Safety
    /// While the result lives, no other reference to any of these bytes exists.
    #[expect(
        clippy::mut_from_ref,
        reason = "parts are borrowed by different queues; the caller excludes an overlap"
    )]
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: as in `bytes`; the caller excludes other references.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start).as_ptr(), range.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and nothing borrows from it any more. If a socket still
        // has the UMEM registered, the kernel has pinned its pages and keeps them.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
