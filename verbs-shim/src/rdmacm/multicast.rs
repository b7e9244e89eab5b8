//! Multicast groups of IDs.

use super::event::wait_if_sync;
use super::sockaddr;
use super::table::find;
use crate::prelude::*;

pub(crate) extern "C" fn join_multicast(
    id: *mut RdmaCmId,
    address: In<u8>,
    context: *mut c_void,
) -> c_int {
    guard::minus_one("rdma_join_multicast", || {
        join(id, address, true, context as usize)
    })
}

pub(crate) extern "C" fn join_multicast_ex(
    id: *mut RdmaCmId,
    attr: In<RdmaJoinMcAttrEx>,
    context: *mut c_void,
) -> c_int {
    guard::minus_one("rdma_join_multicast_ex", || {
        let attr = attr.get()?;
        let known = CM_JOIN_MC_ATTR_ADDRESS | CM_JOIN_MC_ATTR_JOIN_FLAGS;
        if attr.comp_mask != known {
            return Err(Errno::EINVAL);
        }
        let receives = match attr.join_flags {
            MC_JOIN_FLAG_FULLMEMBER => true,
            MC_JOIN_FLAG_SENDONLY_FULLMEMBER => false,
            _ => return Err(Errno::EINVAL),
        };
        join(id, attr.addr, receives, context as usize)
    })
}

/// Joins a group. The QP of a send-only member (`receives` is false) is not attached to it.
fn join(id: *mut RdmaCmId, address: In<u8>, receives: bool, context: usize) -> Result<(), Errno> {
    let id = find(id)?;
    let group = sockaddr::read(address)?;
    {
        let _own = id.own.lock();
        let qp = id.c.get().qp.opt()?.filter(|_| receives);
        let mut event = id.cm.join(group, qp.map(|qp| &qp.qp)).or_errno()?;
        event.tag = context;
        event.deliver();
    }
    wait_if_sync(&id)
}

pub(crate) extern "C" fn leave_multicast(id: *mut RdmaCmId, address: In<u8>) -> c_int {
    guard::minus_one("rdma_leave_multicast", || {
        let id = find(id)?;
        let group = sockaddr::read(address)?;
        let _own = id.own.lock();
        let qp = id.c.get().qp.opt()?;
        id.cm.leave_group(group, qp.map(|qp| &qp.qp)).or_errno()
    })
}
