//! Memory regions of dma-bufs.

use crate::convert::access;
use crate::prelude::*;
use crate::{log, mr};
use roce_verbs::memory::ProgramRegion;
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
        let domain = &pd.get()?.pd;
        let access = access(flags.cast_unsigned() & !ACCESS_OPTIONAL_RANGE)?;
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
        // SAFETY: the program keeps the descriptor open during the call. If it is not open, `fstat`
        // fails.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let region = ProgramRegion::of_descriptor(domain, fd, (offset, length), iova, access);
        // As in rdma-core, `ibv_mr.addr` is the offset: the memory has no address in the program.
        let place = (offset as *mut c_void, length);
        mr::expose(pd, place, region.or_errno()?, None)
    })
}
