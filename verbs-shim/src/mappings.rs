//! The mappings of memory that this library makes.

use crate::log;
use crate::prelude::*;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use nix::sys::stat::fstat;
use roce_verbs::memory::page_size;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// A mapping of a part of a descriptor's memory, or of anonymous memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the addresses are plain numbers, and the mapping belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is done with them through a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `of` or `anonymous` mapped it, and its users were dropped before. A destructor
        // can't report an error.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

impl Mapping {
    /// Maps at least `len` bytes of anonymous memory.
    ///
    /// # Errors
    /// `EINVAL` if `len` is 0, `ENOMEM`.
    pub(crate) fn anonymous(len: usize) -> Result<Self, Errno> {
        let page = page_size();
        let whole = len.checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        let length = NonZeroUsize::new(whole).ok_or(Errno::EINVAL)?;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe { mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE) }?;
        Ok(Self { start, len: whole })
    }

    /// Makes it writable, if it is not.
    ///
    /// # Errors
    /// `EACCES` if the descriptor was not open for writing.
    pub(crate) fn allow_writes(&self) -> Result<(), Errno> {
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is this value's, and nothing relies on it being read-only.
        unsafe { mprotect(self.start, self.len, rights) }
    }

    pub(crate) fn addr(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Maps `len` bytes starting at `offset`. Returns the mapping and the address of the first
    /// byte.
    ///
    /// # Errors
    /// `EINVAL` if they exceed the file; `EOPNOTSUPP` if the exporter does not let the processor
    /// access its memory.
    pub(crate) fn of(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writes: bool,
    ) -> Result<(Self, *mut u8), Errno> {
        let size = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        let end = offset.checked_add(len as u64).ok_or(Errno::EINVAL)?;
        if len == 0 || end > size {
            return Err(Errno::EINVAL);
        }
        let lead = offset % page_size() as u64;
        let invalid = |_| Errno::EINVAL;
        let from = i64::try_from(offset - lead).map_err(invalid)?;
        let whole = usize::try_from(end - (offset - lead)).map_err(invalid)?;
        let mut rights = ProtFlags::PROT_READ;
        rights.set(ProtFlags::PROT_WRITE, writes);
        let length = NonZeroUsize::new(whole).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe { mmap(None, length, rights, MapFlags::MAP_SHARED, fd, from) };
        let start = start.map_err(refused)?;
        let first = start.as_ptr().cast::<u8>().wrapping_add(whole - len);
        Ok((Self { start, len: whole }, first))
    }
}

/// The error for a descriptor that can't be mapped. Exporters refuse with various errors, among them
/// `ENOTSUPP` (524), which the C library does not know.
fn refused(error: Errno) -> Errno {
    match error {
        Errno::ENOMEM | Errno::EACCES | Errno::EPERM => error,
        _ => log::with_reason(Errno::EOPNOTSUPP, || {
            "the exporter lets no processor access this buffer, as with a GPU's memory; register \
             host memory and copy"
                .to_owned()
        }),
    }
}
