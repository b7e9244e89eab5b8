//! Shared receive queues of IDs.

use super::device::{done, made};
use super::id::find;
use crate::abi::*;
use crate::guard;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out};
use crate::srq::{self, Srq};
use nix::errno::Errno;
use std::ffi::c_int;

/// `rdma_create_srq`.
pub(crate) extern "C" fn create_srq(
    id: *mut RdmaCmId,
    pd: Handle<Pd>,
    attr: In<IbvSrqInitAttr>,
) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let inner = id.inner.lock();
        inner.device()?;
        let c = id.c.get();
        let pd = if pd.as_ptr().is_null() { c.pd } else { pd };
        check(&c, pd)?;
        let srq = made(srq::create_srq(pd, attr))?;
        id.c.set(|c| (c.srq, c.pd) = (Handle::named(srq), pd));
        Ok(())
    })
}

/// `rdma_create_srq_ex`. One for XRC comes with its domain and its completion queue.
pub(crate) extern "C" fn create_srq_ex(id: *mut RdmaCmId, attr: Out<IbvSrqInitAttrEx>) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let inner = id.inner.lock();
        inner.device()?;
        let c = id.c.get();
        let attr = attr.get()?;
        let mut wanted = *attr;
        if wanted.comp_mask & SRQ_INIT_ATTR_PD == 0 {
            wanted.comp_mask |= SRQ_INIT_ATTR_PD;
            wanted.pd = c.pd;
        }
        check(&c, wanted.pd)?;
        let is_xrc = wanted.comp_mask & SRQ_INIT_ATTR_TYPE != 0 && wanted.srq_type == SRQT_XRC;
        let whole = SRQ_INIT_ATTR_XRCD | SRQ_INIT_ATTR_CQ;
        if is_xrc && wanted.comp_mask & whole != whole {
            return Err(Errno::EOPNOTSUPP);
        }
        let srq = made(srq::create_srq_ex(c.verbs, Out::allocated(&raw mut wanted)))?;
        *attr = wanted;
        id.c.set(|c| (c.srq, c.pd) = (Handle::named(srq), wanted.pd));
        Ok(())
    })
}

/// An ID has one SRQ, on its device.
fn check(c: &RdmaCmId, pd: Handle<Pd>) -> Result<(), Errno> {
    if !c.srq.as_ptr().is_null() || pd.get()?.context().as_ptr() != c.verbs.as_ptr() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `rdma_destroy_srq`.
pub(crate) extern "C" fn destroy_srq(id: *mut RdmaCmId) {
    guard::nothing(|| {
        let id = find(id)?;
        let srq: Handle<Srq> = id.c.get().srq;
        srq.get()?;
        done(srq::destroy_srq(srq))?;
        id.c.set(|c| c.srq = Handle::NULL);
        Ok(())
    });
}
