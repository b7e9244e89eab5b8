//! Memory regions of dma-bufs, and the mappings of memory that this library makes.

use crate::convert::access;
use crate::log;
use crate::mr::{self, Backing};
use crate::prelude::*;
use crate::{file_memory, mappings};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use nix::sys::stat::fstat;
use roce_verbs::Access;
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
        let page = mappings::page_size()?;
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
    fn of(
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
        let lead = offset % mappings::page_size()? as u64;
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

/// `ibv_reg_dmabuf_mr`. The descriptor need not be a dma-buf's, as long as it can be mapped like
/// one.
pub(crate) extern "C" fn reg_dmabuf_mr(
    pd: Handle<IbvPd>,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    flags: c_int,
) -> *mut IbvMr {
    guard::pointer("ibv_reg_dmabuf_mr", || {
        let domain = pd.get()?;
        let access = access(flags.cast_unsigned() & !ACCESS_OPTIONAL_RANGE)?;
        // As in the kernel, `offset` and `iova` must have the same offset in their page.
        let page = mappings::page_size()? as u64;
        // NCCL and UCX call with -1 to find out whether a GPU's memory can be registered: EBADF means
        // that it can.
        if fd < 0 {
            return Err(log::with_reason(Errno::EOPNOTSUPP, || {
                format!(
                    "descriptor {fd} is none; buffers that the processor can't access, such as a \
                     GPU's, can't be registered"
                )
            }));
        }
        if offset % page != iova % page {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program keeps the descriptor open during the call. If it is not open, `fstat`
        // fails.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let writes = access.contains(Access::LOCAL_WRITE);
        let (mapping, first) = Mapping::of(fd, offset, length, writes)?;
        // SAFETY: mapped until the region is gone, and never borrowed.
        let memory = unsafe { file_memory::memory(first, length as u64) }?;
        let region = domain.pd.register_memory(memory, Some(iova), access);
        // As in rdma-core, `ibv_mr.addr` is the offset: the memory has no address in the program.
        let addr = offset as *mut c_void;
        let backing = Backing::DmaBuf { mapping };
        mr::expose(pd, addr, length, region.or_errno()?, backing)
    })
}
