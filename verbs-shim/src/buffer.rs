//! Buffers that the library allocates for a program (`ibv_alloc_buf`, since rdma-core 64). They
//! exist for NICs that need special memory. This one accepts any memory, so its buffers are
//! ordinary pages.

use crate::mr::reg_mr;
use crate::prelude::*;
use roce_verbs::memory::Mapping;

#[repr(C)]
pub(crate) struct Buffer {
    _c: CPart<IbvBuf>,
    memory: Mapping,
    len: usize,
    /// The address of the `ibv_pd` that the program allocated it for: compared, never dereferenced.
    pd: usize,
    _pd: Use,
}

first_part!(IbvBuf => Buffer._c);

impl Buffer {
    /// # Errors
    /// `EINVAL` unless the buffer belongs to this domain and contains all of these bytes.
    pub(crate) fn check(
        &self,
        pd: Handle<IbvPd>,
        addr: *mut c_void,
        len: usize,
    ) -> Result<(), Errno> {
        let offset = (addr as usize).checked_sub(self.memory.addr());
        let end = offset.and_then(|offset| offset.checked_add(len));
        let fits = end.is_some_and(|end| end <= self.len);
        if fits && pd.as_ptr() as usize == self.pd {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// `ibv_alloc_buf`: returns the address, and a handle in `*to`.
pub(crate) extern "C" fn alloc_buf(
    pd: Handle<IbvPd>,
    size: usize,
    to: Out<*mut IbvBuf>,
) -> *mut c_void {
    guard::pointer("ibv_alloc_buf", || {
        let domain = pd.get()?;
        if to.is_null() {
            return Err(Errno::EINVAL);
        }
        let memory = Mapping::anonymous(size)?;
        let addr = memory.addr() as *mut c_void;
        to.put(Handle::into_raw(Buffer {
            _c: CPart::new(IbvBuf { _opaque: 0 }),
            memory,
            len: size,
            pd: pd.as_ptr() as usize,
            _pd: domain.users.add(),
        }))?;
        Ok(addr)
    })
}

/// `ibv_free_buf`. The program must deregister regions of the buffer first, as with any memory.
pub(crate) extern "C" fn free_buf(buffer: Handle<IbvBuf>) {
    guard::nothing("ibv_free_buf", || buffer.take().map(drop));
}

pub(crate) extern "C" fn reg_buf_mr(
    pd: Handle<IbvPd>,
    buffer: Handle<IbvBuf>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut IbvMr {
    let checked = guard::errno("ibv_reg_buf_mr", || buffer.get()?.check(pd, addr, length));
    match checked {
        0 => reg_mr(pd, addr, length, flags),
        _ => std::ptr::null_mut(),
    }
}

/// `ibv_export_buf_dmabuf_fd`. Fails with `ENODATA`, the man page's error for a buffer without a
/// dma-buf.
pub(crate) extern "C" fn export_buf_dmabuf_fd(buffer: Handle<IbvBuf>) -> c_int {
    guard::minus_one("ibv_export_buf_dmabuf_fd", || {
        buffer.get()?;
        Err(Errno::ENODATA)
    })
}
