//! Memory regions of dma-bufs.

use crate::convert::access;
use crate::mappings::Mapping;
use crate::prelude::*;
use crate::region::Backing;
use crate::{log, mr};
use roce_verbs::Access;
use roce_verbs::memory::{mapped_memory, page_size};
use std::os::fd::BorrowedFd;

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
        let page = page_size() as u64;
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
        let memory = unsafe { mapped_memory(first, length as u64) }.or_errno()?;
        let region = domain.pd.register_memory(memory, Some(iova), access);
        // As in rdma-core, `ibv_mr.addr` is the offset: the memory has no address in the program.
        let addr = offset as *mut c_void;
        let backing = Backing::DmaBuf { mapping };
        mr::expose(pd, addr, length, region.or_errno()?, backing)
    })
}
