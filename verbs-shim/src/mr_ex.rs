//! `ibv_reg_mr_ex` (since rdma-core 62): registers memory at an address, a dma-buf, or a buffer
//! that the library allocated.

use crate::dmabuf::reg_dmabuf_mr;
use crate::mr::reg_mr_iova2;
use crate::prelude::*;

/// The supported attributes. DMA handles (`IBV_REG_MR_MASK_DMAH`), which are hints for a PCI bus,
/// are not.
const KNOWN: u64 = (REG_MR_MASK_IOVA
    | REG_MR_MASK_ADDR
    | REG_MR_MASK_FD
    | REG_MR_MASK_FD_OFFSET
    | REG_MR_MASK_BUF) as u64;

pub(crate) extern "C" fn reg_mr_ex(pd: Handle<IbvPd>, attr: In<IbvMrInitAttr>) -> *mut IbvMr {
    match guard::value("ibv_reg_mr_ex", None, || register_as(pd, attr).map(Some)) {
        Some((attr, true)) => reg_dmabuf_mr(
            pd,
            attr.fd_offset,
            attr.length,
            attr.iova,
            attr.fd,
            attr.access,
        ),
        Some((attr, false)) => reg_mr_iova2(
            pd,
            attr.addr,
            attr.length,
            attr.iova,
            attr.access.cast_unsigned(),
        ),
        None => std::ptr::null_mut(),
    }
}

/// Reads and checks the attributes, and sets `iova` if the program left it out. Also returns
/// whether the memory is that of a descriptor.
fn register_as(pd: Handle<IbvPd>, attr: In<IbvMrInitAttr>) -> Result<(IbvMrInitAttr, bool), Errno> {
    pd.get()?;
    let mut attr = attr.read_grown()?;
    check_bits("comp_mask", attr.comp_mask, KNOWN, Errno::EOPNOTSUPP)?;
    let has = |bit: u32| attr.comp_mask & u64::from(bit) != 0;
    let of_descriptor = has(REG_MR_MASK_FD);
    let whole = match of_descriptor {
        true => {
            let no_more = !has(REG_MR_MASK_ADDR) && !has(REG_MR_MASK_BUF);
            no_more && has(REG_MR_MASK_FD_OFFSET) && has(REG_MR_MASK_IOVA)
        }
        false => has(REG_MR_MASK_ADDR) && !has(REG_MR_MASK_FD_OFFSET),
    };
    if !whole {
        return Err(Errno::EINVAL);
    }
    if has(REG_MR_MASK_BUF) {
        attr.buf.get()?.check(pd, attr.addr, attr.length)?;
    }
    if !has(REG_MR_MASK_IOVA) {
        attr.iova = attr.addr as u64;
    }
    Ok((attr, of_descriptor))
}
