//! Shared receive queues of IDs.

use super::id::Id;
use super::qp::xrcd;
use super::queues;
use super::table::find;
use crate::errors::check_errno;
use crate::prelude::*;
use crate::srq;

/// `rdma_create_srq`. For an ID of type XRC, creates an XRC SRQ.
pub(crate) extern "C" fn create_srq(
    id: *mut RdmaCmId,
    pd: Handle<IbvPd>,
    attr: In<IbvSrqInitAttr>,
) -> c_int {
    guard::minus_one("rdma_create_srq", || {
        let id = find(id)?;
        let IbvSrqInitAttr { srq_context, attr } = *attr.get()?;
        let is_xrc = id.c.get().qp_type == QPT_XRC_RECV;
        let params = IbvSrqInitAttrEx {
            srq_context,
            attr,
            srq_type: if is_xrc { SRQT_XRC } else { SRQT_BASIC },
            pd,
            ..Zero::zeroed()
        };
        create(&id, params).map(drop)
    })
}

pub(crate) extern "C" fn create_srq_ex(id: *mut RdmaCmId, attr: Out<IbvSrqInitAttrEx>) -> c_int {
    guard::minus_one("rdma_create_srq_ex", || {
        let made = create(&*find(id)?, attr.input().read_grown()?)?;
        let attr = attr.get()?;
        (attr.comp_mask, attr.pd) = (made.comp_mask, made.pd);
        (attr.xrcd, attr.cq) = (made.xrcd, made.cq);
        Ok(())
    })
}

/// Creates an SRQ. The library provides a protection domain, and for XRC an XRC domain and a CQ, if
/// the program does not.
fn create(id: &Id, mut params: IbvSrqInitAttrEx) -> Result<IbvSrqInitAttrEx, Errno> {
    let mut own_part = id.own.lock();
    let c = id.c.get();
    if params.pd.as_ptr().is_null() {
        params.pd = c.pd;
    }
    params.comp_mask |= SRQ_INIT_ATTR_PD;
    id.cm.device().or_errno()?;
    check(&c, params.pd)?;
    let mut own = None;
    if params.srq_type == SRQT_XRC {
        if params.xrcd.as_ptr().is_null() {
            params.xrcd = xrcd(id)?;
        }
        if params.cq.as_ptr().is_null() {
            let new =
                queues::create_cq_with_channel(c.verbs, params.attr.max_wr, id.as_ptr().cast())?;
            params.cq = new.1;
            own = Some(new);
        }
        params.comp_mask |= SRQ_INIT_ATTR_XRCD | SRQ_INIT_ATTR_CQ;
    }
    let made = params.create(c.verbs).map(Handle::from_ptr);
    let srq = made.inspect_err(|_| own.into_iter().for_each(queues::destroy_queue))?;
    id.c.set(|c| {
        (c.srq, c.pd) = (srq, params.pd);
        if let Some(queue) = own {
            (c.recv_cq_channel, c.recv_cq) = queue;
        }
    });
    own_part.srq_cq = own;
    Ok(params)
}

/// Checks that the ID has no SRQ yet, and that the domain is its device's.
fn check(c: &RdmaCmId, pd: Handle<IbvPd>) -> Result<(), Errno> {
    if !c.srq.as_ptr().is_null() || pd.get()?.context().as_ptr() != c.verbs.as_ptr() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

pub(crate) extern "C" fn destroy_srq(id: *mut RdmaCmId) {
    guard::nothing("rdma_destroy_srq", || {
        let id = find(id)?;
        let srq: Handle<IbvSrq> = id.c.get().srq;
        srq.get()?;
        check_errno(srq::destroy_srq(srq))?;
        let own = id.own.lock().srq_cq.take();
        id.c.set(|c| {
            c.srq = Handle::NULL;
            // A QP that was created later has a CQ of its own there.
            if own.is_some_and(|(_, queue)| queue.as_ptr() == c.recv_cq.as_ptr()) {
                (c.recv_cq_channel, c.recv_cq) = (Handle::NULL, Handle::NULL);
            }
        });
        if let Some(queue) = own {
            queues::destroy_queue(queue);
        }
        Ok(())
    });
}
