//! QPs of IDs, and the completion queues that the library makes for them.

use super::attributes;
use super::device::refused;
use super::id::{Id, Own};
use super::queues::NewCqs;
use super::table::{find, table};
use crate::errors::check_errno;
use crate::prelude::*;
use crate::qp;
use roce_verbs::QpKind;
use roce_verbs::rdma_cm::{IdError, IdQp, QpParameters};

/// The minimum inline capacity of a QP, in bytes: the size of a scatter/gather element in a NIC's
/// work request. Programs rely on it without requesting it.
const MIN_INLINE: u32 = 16;

pub(crate) extern "C" fn create_qp(
    id: *mut RdmaCmId,
    pd: Handle<IbvPd>,
    attr: Out<IbvQpInitAttr>,
) -> c_int {
    guard::minus_one("rdma_create_qp", || create(&*find(id)?, pd, attr.get()?))
}

/// As `rdma_create_qp`.
///
/// # Errors
/// `EINVAL` if the ID has a QP, or no device yet; and the errors of `ibv_create_qp_ex`.
pub(super) fn create(id: &Id, pd: Handle<IbvPd>, attr: &mut IbvQpInitAttr) -> Result<(), Errno> {
    let pd = if pd.as_ptr().is_null() {
        id.c.get().pd
    } else {
        pd
    };
    let mut params = attr.in_domain(pd);
    params.cap.max_inline_data = params.cap.max_inline_data.max(MIN_INLINE);
    create_extended(id, &mut params)?;
    (attr.send_cq, attr.recv_cq) = (params.send_cq, params.recv_cq);
    (attr.srq, attr.cap) = (params.srq, params.cap);
    Ok(())
}

pub(crate) extern "C" fn create_qp_ex(id: *mut RdmaCmId, attr: Out<IbvQpInitAttrEx>) -> c_int {
    guard::minus_one("rdma_create_qp_ex", || {
        let id = find(id)?;
        let mut params = attr.input().read_grown()?;
        if params.comp_mask & QP_INIT_ATTR_PD == 0 {
            params.comp_mask |= QP_INIT_ATTR_PD;
            params.pd = id.c.get().pd;
        }
        create_extended(&id, &mut params)?;
        let attr = attr.get()?;
        (attr.send_cq, attr.recv_cq) = (params.send_cq, params.recv_cq);
        (attr.srq, attr.cap) = (params.srq, params.cap);
        (attr.comp_mask, attr.pd, attr.xrcd) = (params.comp_mask, params.pd, params.xrcd);
        Ok(())
    })
}

/// Creates a QP, in an XRC domain of the device and with CQs of its own, if the program gives none.
fn create_extended(id: &Id, params: &mut IbvQpInitAttrEx) -> Result<(), Errno> {
    let mut own = id.own.lock();
    let c = id.c.get();
    if params.srq.as_ptr().is_null() {
        params.srq = c.srq;
    }
    if params.qp_type == QPT_XRC_RECV && params.comp_mask & QP_INIT_ATTR_XRCD == 0 {
        params.comp_mask |= QP_INIT_ATTR_XRCD;
        params.xrcd = xrcd(id)?;
    }
    check(id, &c, params.pd)?;
    let depths = depths(params.qp_type, &params.cap);
    let new = NewCqs::make(
        c.verbs,
        id.as_ptr().cast(),
        [&mut params.send_cq, &mut params.recv_cq],
        depths,
    )?;
    let to = Out::allocated(&raw mut params.cap);
    let qp = params.create(c.verbs, to).map(Handle::from_ptr);
    finish(id, &mut own, params.pd, qp, &new)
}

/// The number of entries that the send CQ and the receive CQ need; `None` if the QP needs no such
/// CQ.
fn depths(qp_type: u32, cap: &IbvQpCap) -> [Option<u32>; 2] {
    let sends = (qp_type != QPT_XRC_RECV).then_some(cap.max_send_wr);
    let has_receives = !matches!(qp_type, QPT_XRC_SEND | QPT_XRC_RECV);
    [sends, has_receives.then_some(cap.max_recv_wr)]
}

/// Checks that the ID has no QP yet, and that the domain is its device's.
fn check(id: &Id, c: &RdmaCmId, pd: Handle<IbvPd>) -> Result<(), Errno> {
    id.cm.device().or_errno()?;
    if !c.qp.as_ptr().is_null() || pd.get()?.context().as_ptr() != c.verbs.as_ptr() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Starts the new QP, see [`start`], and stores it in the ID. If that fails, destroys it and the
/// CQs in `new`.
fn finish(
    id: &Id,
    own: &mut Own,
    pd: Handle<IbvPd>,
    qp: Result<Handle<IbvQp>, Errno>,
    new: &NewCqs,
) -> Result<(), Errno> {
    let started = qp.and_then(|qp| {
        start(id, qp).inspect_err(|_| {
            qp::destroy_qp(qp);
        })?;
        Ok(qp)
    });
    let qp = started.inspect_err(|_| new.destroy())?;
    id.c.set(|c| {
        (c.qp, c.pd) = (qp, pd);
        if let Some((channel, queue)) = new.0[0] {
            (c.send_cq_channel, c.send_cq) = (channel, queue);
        }
        if let Some((channel, queue)) = new.0[1] {
            (c.recv_cq_channel, c.recv_cq) = (channel, queue);
        }
    });
    own.created_cqs = *new;
    Ok(())
}

/// Brings a QP to INIT, and a UD QP on to RTS: it needs no peer.
fn start(id: &Id, qp: Handle<IbvQp>) -> Result<(), Errno> {
    modify(qp, attributes::of(id, QPS_INIT)?)?;
    if id.cm.kind() == QpKind::Ud {
        modify(qp, attributes::of(id, QPS_RTR)?)?;
        modify(qp, attributes::of(id, QPS_RTS)?)?;
    }
    Ok(())
}

fn modify(qp: Handle<IbvQp>, (attr, mask): attributes::Attributes) -> Result<(), Errno> {
    let part = In::at(&raw const attr as u64);
    check_errno(qp::modify_qp(qp, part, mask.cast_signed()))
}

/// The QP of an ID, for the connection manager.
struct CmQp(Handle<IbvQp>);

/// Calls `work` with the QP of an ID, if it has one. The program can't destroy the QP meanwhile.
pub(super) fn with_qp<R>(id: &Id, work: impl FnOnce(Option<&dyn IdQp>) -> R) -> R {
    let _own = id.own.lock();
    match id.c.get().qp {
        qp if qp.as_ptr().is_null() => work(None),
        qp => work(Some(&CmQp(qp))),
    }
}

impl IdQp for CmQp {
    fn connect(&self, parameters: &QpParameters) -> Result<(), IdError> {
        let connect = || {
            let kind = self.0.get()?.kind();
            let rtr = attributes::rtr(parameters);
            modify(self.0, attributes::for_state(rtr, QPS_RTR, kind))?;
            let rts = attributes::rts(parameters);
            modify(self.0, attributes::for_state(rts, QPS_RTS, kind))
        };
        connect().map_err(refused)
    }

    fn fail(&self) {
        let attr = IbvQpAttr {
            qp_state: QPS_ERR,
            ..IbvQpAttr::zeroed()
        };
        let _ = modify(self.0, (attr, QP_STATE));
    }
}

/// The default XRC domain of the ID's device.
pub(super) fn xrcd(id: &Id) -> Result<Handle<IbvXrcd>, Errno> {
    let device = id.cm.device().or_errno()?;
    table()?.opened(device.context())?.xrcd()
}

pub(crate) extern "C" fn destroy_qp(id: *mut RdmaCmId) {
    guard::nothing("rdma_destroy_qp", || destroy(&*find(id)?));
}

/// As `rdma_destroy_qp`.
///
/// # Errors
/// `EINVAL` if the ID has no QP.
pub(super) fn destroy(id: &Id) -> Result<(), Errno> {
    let mut own = id.own.lock();
    let c = id.c.get();
    c.qp.get()?;
    check_errno(qp::destroy_qp(c.qp))?;
    id.cm.forget_groups();
    let created = std::mem::take(&mut own.created_cqs);
    created.destroy();
    let [send, recv] = created.0;
    id.c.set(|c| {
        c.qp = Handle::NULL;
        if send.is_some() {
            (c.send_cq_channel, c.send_cq) = (Handle::NULL, Handle::NULL);
        }
        if recv.is_some() {
            (c.recv_cq_channel, c.recv_cq) = (Handle::NULL, Handle::NULL);
        }
    });
    Ok(())
}
