//! Memory for tests: two pages of a file that can be truncated.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::ftruncate;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr;

pub(super) const PAGE: usize = 4096;

pub(super) struct Mapped {
    pub(super) file: OwnedFd,
    pub(super) start: ptr::NonNull<c_void>,
}

impl Mapped {
    pub(super) fn new() -> Self {
        let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).expect("a file");
        ftruncate(&file, 2 * PAGE as i64).expect("longer");
        let len = NonZeroUsize::new(2 * PAGE).expect("not zero");
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe { mmap(None, len, rights, MapFlags::MAP_SHARED, &file, 0) };
        let start = start.expect("mapped");
        Self { file, start }
    }

    pub(super) fn at(&self, offset: usize) -> u64 {
        self.start.as_ptr() as u64 + offset as u64
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's.
        let _ = unsafe { munmap(self.start, 2 * PAGE) };
    }
}
