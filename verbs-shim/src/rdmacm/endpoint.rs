//! Endpoints: IDs with address, route and QP made in one call.

use super::event::{acknowledge_sync_event, next_request};
use super::id::{Endpoint, Id};
use super::table::{find, table};
use super::{lifetime, qp, resolve};
use crate::prelude::*;
use std::ptr;

/// The resolution timeout. It has no effect, because this library resolves immediately.
const TIMEOUT_MS: c_int = 2000;

/// `rdma_create_ep`: an ID that listens later, or one with a route and, if requested, a QP.
pub(crate) extern "C" fn create_ep(
    id: Out<*mut RdmaCmId>,
    info: In<RdmaAddrinfo>,
    pd: Handle<IbvPd>,
    attr: Out<IbvQpInitAttr>,
) -> c_int {
    guard::minus_one("rdma_create_ep", || {
        id.get()?;
        let info = info.get()?;
        let (space, kind) = (info.ai_port_space, info.ai_qp_type);
        let qp_type = match kind {
            0 if space.cast_unsigned() == PS_UDP => QPT_UD,
            0 => QPT_RC,
            kind => kind.cast_unsigned(),
        };
        let new = lifetime::create(
            ptr::null_mut(),
            ptr::null_mut(),
            space.cast_unsigned(),
            qp_type,
        )?;
        let part = new.as_ptr();
        prepare(part, info, pd, attr, qp_type).inspect_err(|_| {
            destroy_ep(part);
        })?;
        id.put(part)
    })
}

/// The result of a call that returns -1 and sets `errno`.
fn check_minus_one(code: c_int) -> Result<(), Errno> {
    if code == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

fn prepare(
    part: *mut RdmaCmId,
    info: &RdmaAddrinfo,
    pd: Handle<IbvPd>,
    attr: Out<IbvQpInitAttr>,
    qp_type: u32,
) -> Result<(), Errno> {
    let id = find(part)?;
    let is_given = !attr.is_null();
    if info.ai_flags & rai::PASSIVE != 0 {
        check_minus_one(resolve::bind_addr(part, info.ai_src_addr))?;
        if !pd.as_ptr().is_null() {
            id.c.set(|c| c.pd = pd);
        }
        if is_given {
            let mut attr = *attr.get()?;
            attr.qp_type = qp_type;
            id.own.lock().endpoint = Some(Endpoint(attr));
        }
        return Ok(());
    }
    check_minus_one(resolve::resolve_addr(
        part,
        info.ai_src_addr,
        info.ai_dst_addr,
        TIMEOUT_MS,
    ))?;
    check_minus_one(resolve::resolve_route(part, TIMEOUT_MS))?;
    if is_given {
        let attr = attr.get()?;
        attr.qp_type = qp_type;
        qp::create(&id, pd, attr)?;
    }
    let private = info.ai_connect.slice(info.ai_connect_len)?;
    id.own.lock().private = private.to_vec();
    Ok(())
}

pub(crate) extern "C" fn get_request(listener: *mut RdmaCmId, id: Out<*mut RdmaCmId>) -> c_int {
    guard::minus_one("rdma_get_request", || {
        id.get()?;
        let listener = find(listener)?;
        acknowledge_sync_event(&listener)?;
        let request = next_request(&listener)?;
        adopt_request(&listener, &request)?;
        id.put(request.as_ptr())
    })
}

/// Gives a requested connection a channel of its own, and a QP with the attributes of the listening
/// endpoint.
///
/// # Errors
/// Those of `rdma_create_qp`. The connection's ID is then destroyed.
fn adopt_request(listener: &Id, request: &Arc<Id>) -> Result<(), Errno> {
    let own = table()?.channel_or_new(ptr::null())?;
    lifetime::migrate(request, own, true)?;
    let attr = listener.own.lock().endpoint;
    let Some(Endpoint(mut attr)) = attr else {
        return Ok(());
    };
    let pd = listener.c.get().pd;
    let same = pd
        .opt()?
        .is_some_and(|pd| pd.context().as_ptr() == request.c.get().verbs.as_ptr());
    let pd = if same { pd } else { Handle::NULL };
    qp::create(request, pd, &mut attr).inspect_err(|_| {
        destroy_ep(request.as_ptr());
    })
}

pub(crate) extern "C" fn destroy_ep(id: *mut RdmaCmId) {
    guard::nothing("rdma_destroy_ep", || {
        let found = find(id)?;
        // This fails if the ID has no QP.
        let _ = qp::destroy(&found);
        if !found.c.get().srq.as_ptr().is_null() {
            super::srq::destroy_srq(id);
        }
        lifetime::destroy(id)
    });
}
