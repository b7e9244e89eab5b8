//! Second mappings of shared pages.

use super::NotPersistent;
use crate::memory::page_size;
use nix::errno::Errno;
use nix::sys::mman::{MRemapFlags, MapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

/// The alignment that is kept: that of huge pages, which device memory may consist of.
const ALIGN: usize = 2 << 20;

/// A second mapping of the pages that contain some bytes. The kernel keeps the file open for it.
#[derive(Debug)]
pub(super) struct Alias {
    start: NonNull<c_void>,
    len: usize,
    /// The number of bytes in the first page before the first byte.
    lead: usize,
    page: usize,
}

// SAFETY: the addresses are plain numbers, and the mapping belongs to this value alone.
#[expect(unsafe_code)]
unsafe impl Send for Alias {}
// SAFETY: as above; nothing is changed through a shared reference.
#[expect(unsafe_code)]
unsafe impl Sync for Alias {}

impl Alias {
    /// Maps the pages of the bytes, which are part of one shared mapping, once more.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn of(bytes: &Range<u64>) -> Result<Self, NotPersistent> {
        let page = page_size();
        let number = |n: u64| usize::try_from(n).map_err(|_| Errno::EOVERFLOW);
        let (first, end) = (number(bytes.start)?, number(bytes.end)?);
        let lead = first % page;
        let from = first - lead;
        let len = (end - from).next_multiple_of(page);
        let (start, len) = map_again(from, len)?;
        Ok(Self {
            start,
            len,
            lead,
            page,
        })
    }

    pub(super) fn first_byte(&self) -> usize {
        self.start.as_ptr() as usize + self.lead
    }

    /// The pages of `len` of the bytes, from `offset` on: their address and length. `len` is above 0.
    pub(super) fn pages(&self, offset: u64, len: u64) -> (NonNull<c_void>, usize) {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let first = self.lead + number(offset);
        let begin = first - first % self.page;
        let end = first.saturating_add(number(len));
        let end = end.next_multiple_of(self.page).min(self.len);
        // SAFETY: `begin` is within the mapping.
        #[expect(unsafe_code)]
        let at = unsafe { self.start.byte_add(begin) };
        (at, end - begin)
    }
}

/// Maps the `len` bytes of a shared mapping at `from` a second time, at an address of the same
/// alignment.
fn map_again(from: usize, len: usize) -> Result<(NonNull<c_void>, usize), Errno> {
    let reserved = len.checked_add(ALIGN).ok_or(Errno::ENOMEM)?;
    let reserved = NonZeroUsize::new(reserved).ok_or(Errno::EINVAL)?;
    let none = ProtFlags::PROT_NONE;
    let private = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    let original = NonNull::new(from as *mut c_void).ok_or(Errno::EFAULT)?;
    // SAFETY: a new mapping, at an address that nobody uses. Its pages within are then replaced by
    // the alias, and the rest is unmapped: nothing refers to them. With an old length of 0,
    // `mremap` leaves the original as it is, and fails if that is not shared.
    #[expect(unsafe_code)]
    unsafe {
        let area = mmap_anonymous(None, reserved, none, private)?;
        let begin = area.as_ptr() as usize;
        let skip = (from % ALIGN + ALIGN - begin % ALIGN) % ALIGN;
        let at = area.byte_add(skip);
        let flags = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
        if let Err(errno) = mremap(original, 0, len, flags, Some(at)) {
            let _ = munmap(area, reserved.get());
            return Err(errno);
        }
        if skip > 0 {
            let _ = munmap(area, skip);
        }
        if skip < ALIGN {
            let _ = munmap(at.byte_add(len), ALIGN - skip);
        }
        Ok((at, len))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // SAFETY: `of` mapped it, and only this value knows it.
        #[expect(unsafe_code)]
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
