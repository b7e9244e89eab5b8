//! The attributes for each transition of an ID's QP, from RESET to RTS, in C's form.

use super::id::Id;
use super::table::find;
use crate::ah;
use crate::convert::{c_access, c_gid, qp_kind};
use crate::prelude::*;
use roce_verbs::QpKind;
use roce_verbs::rdma_cm::{IdPath, QpParameters};

/// Attributes, and the mask of those that are set.
pub(super) type Attributes = (IbvQpAttr, u32);

/// Attributes that only a requester of a reliable service has.
const REQUESTER_ONLY: u32 = QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC;

/// Attributes that only a responder of a reliable service has.
const RESPONDER_ONLY: u32 = QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;

/// # Errors
/// `EINVAL` for a state other than INIT, RTR and RTS, or if an attribute that the transition needs
/// is not known yet.
pub(super) fn of(id: &Id, state: u32) -> Result<Attributes, Errno> {
    id.cm.device().or_errno()?;
    let is_datagram = id.cm.kind() == QpKind::Ud;
    let parameters = || id.cm.qp_parameters().or_errno();
    let attributes = match (state, is_datagram) {
        (QPS_INIT, true) => init_datagram(),
        (QPS_INIT, false) => init(c_access(id.cm.qp_access())),
        (QPS_RTR, true) => (IbvQpAttr::zeroed(), 0),
        (QPS_RTR, false) => rtr(&parameters()?),
        (QPS_RTS, true) => rts_datagram(id.cm.psn().get()),
        (QPS_RTS, false) => rts(&parameters()?),
        _ => return Err(Errno::EINVAL),
    };
    Ok(for_state(attributes, state, kind(&id.c.get())?))
}

/// The kind of an ID's QP, or of the QP that it is for.
pub(super) fn kind(c: &RdmaCmId) -> Result<QpKind, Errno> {
    match c.qp.opt()? {
        Some(qp) => Ok(qp.kind()),
        None => qp_kind(c.qp_type),
    }
}

/// The attributes that this module sets and that a kind of QP does not have.
fn unused(kind: QpKind) -> u32 {
    match kind {
        QpKind::Uc => REQUESTER_ONLY | RESPONDER_ONLY | QP_TIMEOUT,
        QpKind::XrcInitiator => RESPONDER_ONLY,
        QpKind::XrcTarget => REQUESTER_ONLY,
        _ => 0,
    }
}

/// Attributes by their bits in the mask.
macro_rules! attributes {
    ($($bit:ident => $field:ident: $value:expr,)*) => {
        (
            IbvQpAttr {
                $($field: $value,)*
                ..Zero::zeroed()
            },
            0 $(| $bit)*,
        )
    };
}

fn init_datagram() -> Attributes {
    attributes! {
        QP_PKEY_INDEX => pkey_index: 0,
        QP_PORT => port_num: 1,
        QP_QKEY => qkey: UDP_QKEY,
    }
}

fn rts_datagram(psn: u32) -> Attributes {
    attributes! { QP_SQ_PSN => sq_psn: psn, }
}

fn init(access: u32) -> Attributes {
    attributes! {
        QP_PKEY_INDEX => pkey_index: 0,
        QP_PORT => port_num: 1,
        QP_ACCESS_FLAGS => qp_access_flags: access,
    }
}

pub(super) fn rtr(parameters: &QpParameters) -> Attributes {
    let QpParameters {
        gid_index,
        remote,
        options,
        ..
    } = *parameters;
    let path = IdPath {
        gid_index,
        to: remote.gid,
        traffic_class: options.traffic_class,
        hop_limit: options.hop_limit,
    };
    attributes! {
        QP_AV => ah_attr: ah_attr(&path),
        QP_PATH_MTU => path_mtu: options.path_mtu.map_or(0, |mtu| mtu.code().into()),
        QP_DEST_QPN => dest_qp_num: remote.qpn.get(),
        QP_RQ_PSN => rq_psn: remote.psn.get(),
        QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic: options.max_dest_rd_atomic,
        QP_MIN_RNR_TIMER => min_rnr_timer: options.min_rnr_timer.code(),
        QP_ACCESS_FLAGS => qp_access_flags: c_access(options.access),
    }
}

pub(super) fn rts(parameters: &QpParameters) -> Attributes {
    let options = parameters.options;
    attributes! {
        QP_SQ_PSN => sq_psn: parameters.sq_psn.get(),
        QP_TIMEOUT => timeout: options.timeout,
        QP_RETRY_CNT => retry_cnt: options.retry_cnt,
        QP_RNR_RETRY => rnr_retry: options.rnr_retry,
        QP_MAX_QP_RD_ATOMIC => max_rd_atomic: options.max_rd_atomic,
    }
}

/// These attributes, without those that a kind of QP does not have.
pub(super) fn for_state((mut attr, mask): Attributes, state: u32, kind: QpKind) -> Attributes {
    attr.qp_state = state;
    (attr, mask & !unused(kind) | QP_STATE)
}

/// The attributes of an address handle for a path.
pub(super) fn ah_attr(path: &IdPath) -> IbvAhAttr {
    ah::ah_attr(IbvGlobalRoute {
        dgid: c_gid(path.to),
        sgid_index: path.gid_index,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        ..Zero::zeroed()
    })
}

/// `rdma_init_qp_attr`: for programs that manage their QPs themselves.
pub(crate) extern "C" fn init_qp_attr(
    id: *mut RdmaCmId,
    attr: Out<IbvQpAttr>,
    mask: Out<c_int>,
) -> c_int {
    guard::minus_one("rdma_init_qp_attr", || {
        let id = find(id)?;
        let (found, bits) = of(&id, attr.get()?.qp_state)?;
        mask.put(bits.cast_signed())?;
        attr.put(found)
    })
}
