//! Shared receive queues of IDs.

use super::device::{done, made};
use super::id::{Id, Owned, find};
use super::qp;
use crate::abi::*;
use crate::guard;
use crate::pointer::{Handle, In, Out};
use crate::srq;
use nix::errno::Errno;
use std::ffi::c_int;

/// `rdma_create_srq`. For an ID of type XRC, creates an XRC SRQ.
pub(crate) extern "C" fn create_srq(
    id: *mut RdmaCmId,
    pd: Handle<IbvPd>,
    attr: In<IbvSrqInitAttr>,
) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let IbvSrqInitAttr { srq_context, attr } = *attr.get()?;
        let is_xrc = id.c.get().qp_type == QPT_XRC_RECV;
        create(
            &id,
            &mut IbvSrqInitAttrEx {
                srq_context,
                attr,
                comp_mask: SRQ_INIT_ATTR_PD | SRQ_INIT_ATTR_TYPE,
                srq_type: if is_xrc { SRQT_XRC } else { SRQT_BASIC },
                pd,
                xrcd: Handle::NULL,
                cq: Handle::NULL,
                tm_cap: [0; 2],
            },
        )
    })
}

/// `rdma_create_srq_ex`.
pub(crate) extern "C" fn create_srq_ex(id: *mut RdmaCmId, attr: Out<IbvSrqInitAttrEx>) -> c_int {
    guard::minus_one(|| create(&*find(id)?, attr.get()?))
}

/// The library provides what the program does not: the protection domain; for XRC, the XRC domain
/// and the completion queue.
fn create(id: &Id, attr: &mut IbvSrqInitAttrEx) -> Result<(), Errno> {
    let mut inner = id.inner.lock();
    let c = id.c.get();
    let mut wanted = *attr;
    let has = |bit| attr.comp_mask & bit != 0;
    if !has(SRQ_INIT_ATTR_PD) || wanted.pd.as_ptr().is_null() {
        wanted.pd = c.pd;
    }
    wanted.comp_mask |= SRQ_INIT_ATTR_PD;
    inner.device()?;
    check(&c, wanted.pd)?;
    let mut own = None;
    if has(SRQ_INIT_ATTR_TYPE) && wanted.srq_type == SRQT_XRC {
        if !has(SRQ_INIT_ATTR_XRCD) || wanted.xrcd.as_ptr().is_null() {
            wanted.xrcd = inner.device()?.xrcd()?;
        }
        if !has(SRQ_INIT_ATTR_CQ) || wanted.cq.as_ptr().is_null() {
            let new = qp::queue(c.verbs, wanted.attr.max_wr, id.as_ptr().cast())?;
            wanted.cq = new.1;
            own = Some(new);
        }
        wanted.comp_mask |= SRQ_INIT_ATTR_XRCD | SRQ_INIT_ATTR_CQ;
    }
    let made = made(srq::create_srq_ex(c.verbs, Out::allocated(&raw mut wanted)));
    let srq = made.inspect_err(|_| own.into_iter().for_each(qp::destroy_queue))?;
    *attr = wanted;
    id.c.set(|c| {
        (c.srq, c.pd) = (Handle::named(srq), wanted.pd);
        if let Some(queue) = own {
            (c.recv_cq_channel, c.recv_cq) = queue;
        }
    });
    inner.queue_of_srq = own.map(Owned);
    Ok(())
}

/// Checks that the ID has no SRQ yet, and that the domain is its device's.
fn check(c: &RdmaCmId, pd: Handle<IbvPd>) -> Result<(), Errno> {
    if !c.srq.as_ptr().is_null() || pd.get()?.context().as_ptr() != c.verbs.as_ptr() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `rdma_destroy_srq`.
pub(crate) extern "C" fn destroy_srq(id: *mut RdmaCmId) {
    guard::nothing(|| {
        let id = find(id)?;
        let srq: Handle<IbvSrq> = id.c.get().srq;
        srq.get()?;
        done(srq::destroy_srq(srq))?;
        let own = id.inner.lock().queue_of_srq.take();
        id.c.set(|c| {
            c.srq = Handle::NULL;
            if own.is_some() {
                (c.recv_cq_channel, c.recv_cq) = (Handle::NULL, Handle::NULL);
            }
        });
        if let Some(Owned(queue)) = own {
            qp::destroy_queue(queue);
        }
        Ok(())
    });
}
