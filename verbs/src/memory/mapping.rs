//! The mappings of memory that this crate makes.

use super::page_size;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// A mapping of a part of a file, or of anonymous memory. Dropping it unmaps it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    len: NonZeroUsize,
}

// SAFETY: the addresses are plain numbers, and the mapping belongs to this value alone.
#[expect(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is done with them through a shared reference.
#[expect(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes of anonymous memory.
    ///
    /// # Errors
    /// `EINVAL` if `len` is 0, `ENOMEM`.
    pub fn anonymous(len: usize) -> nix::Result<Self> {
        let whole = len.checked_next_multiple_of(page_size());
        let len = NonZeroUsize::new(whole.ok_or(Errno::ENOMEM)?).ok_or(Errno::EINVAL)?;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that nobody uses.
        #[expect(unsafe_code)]
        let start = unsafe { mmap_anonymous(None, len, rights, MapFlags::MAP_PRIVATE) }?;
        Ok(Self { start, len })
    }

    /// Maps `len` bytes of a file from `offset` on, a multiple of the size of a page.
    pub(super) fn of(
        file: &impl AsFd,
        offset: u64,
        len: NonZeroUsize,
        writes: bool,
        flags: MapFlags,
    ) -> nix::Result<Self> {
        let mut rights = ProtFlags::PROT_READ;
        rights.set(ProtFlags::PROT_WRITE, writes);
        let from = i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: a new mapping, at an address that nobody uses.
        #[expect(unsafe_code)]
        let start = unsafe { mmap(None, len, rights, flags, file, from) }?;
        Ok(Self { start, len })
    }

    /// Makes it writable, if it is not.
    ///
    /// # Errors
    /// `EACCES` if the descriptor was not open for writing.
    pub(super) fn allow_writes(&self) -> nix::Result<()> {
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is this value's, and nothing relies on it being read-only.
        #[expect(unsafe_code)]
        unsafe {
            mprotect(self.start, self.len.get(), rights)
        }
    }

    /// The address of the first byte.
    pub fn addr(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len.get()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `of` or `anonymous` mapped it, and its users were dropped before. A destructor
        // can't report an error.
        #[expect(unsafe_code)]
        let _ = unsafe { munmap(self.start, self.len.get()) };
    }
}
