//! The attributes for each transition of an ID's QP, from RESET to RTS.

use super::id::{Id, Inner, State};
use super::path;
use super::table::find;
use crate::convert::qp_kind;
use crate::prelude::*;
use roce_verbs::QpKind;

/// The code of the RNR timer for a peer that retries without limit: 0.64 ms.
const SHORT_RNR_TIMER: u8 = 12;

/// The code of the RNR timer for a peer with a finite retry count: 655.36 ms, which Linux uses for
/// all peers. Programs choose their retry counts for that value. With 0.64 ms, five retries are
/// over before a busy machine schedules the thread that is about to post a receive.
const LONG_RNR_TIMER: u8 = 0;

/// The RNR retry count that means no limit.
const NO_LIMIT: u8 = 7;

/// Attributes, and the mask of those that are set.
pub(super) type Attributes = (IbvQpAttr, u32);

/// Attributes that only a requester of a reliable service has.
const REQUESTER_ONLY: u32 = QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC;

/// Attributes that only a responder of a reliable service has.
const RESPONDER_ONLY: u32 = QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;

/// # Errors
/// `EINVAL` for a state other than INIT, RTR and RTS, or if an attribute that the transition needs
/// is not known yet.
pub(super) fn of(id: &Id, inner: &Inner, state: u32) -> Result<Attributes, Errno> {
    inner.device()?;
    let unused = unused(kind(&id.c.get())?);
    let (mut attr, mut mask) = match (state, id.is_datagram) {
        (QPS_INIT, true) => init_datagram(),
        (QPS_INIT, false) => init(inner),
        (QPS_RTR, true) => (IbvQpAttr::zeroed(), 0),
        (QPS_RTR, false) => rtr(inner)?,
        (QPS_RTS, true) => rts_datagram(inner),
        (QPS_RTS, false) => rts(inner),
        _ => return Err(Errno::EINVAL),
    };
    attr.qp_state = state;
    mask &= !unused;
    Ok((attr, mask | QP_STATE))
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

fn rts_datagram(inner: &Inner) -> Attributes {
    attributes! { QP_SQ_PSN => sq_psn: inner.psn, }
}

fn init(inner: &Inner) -> Attributes {
    attributes! {
        QP_PKEY_INDEX => pkey_index: 0,
        QP_PORT => port_num: 1,
        QP_ACCESS_FLAGS => qp_access_flags: access(inner),
    }
}

/// The peer's access rights. READs, atomics and FLUSHes are allowed unless `responder_resources` is 0.
fn access(inner: &Inner) -> u32 {
    let write = ACCESS_REMOTE_WRITE;
    if inner.peer.responder_resources == 0 {
        write
    } else {
        let flushes = ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT;
        write | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC | flushes
    }
}

fn rtr(inner: &Inner) -> Result<Attributes, Errno> {
    inner.check(&[
        State::RequestReceived,
        State::Connecting,
        State::ReplyReceived,
        State::Connected,
    ])?;
    let peer = inner.peer;
    if peer.qpn == 0 {
        // The REP has not arrived yet.
        return Err(Errno::EINVAL);
    }
    Ok(attributes! {
        QP_AV => ah_attr: path::to_peer(inner)?,
        QP_PATH_MTU => path_mtu: peer.mtu,
        QP_DEST_QPN => dest_qp_num: peer.qpn,
        // Each side chooses the PSN that its peer starts with.
        // rule: 12.6.5-starting-psn
        QP_RQ_PSN => rq_psn: inner.psn,
        QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic: peer.responder_resources,
        QP_MIN_RNR_TIMER => min_rnr_timer: rnr_timer(inner.peer_rnr_retry_count),
        QP_ACCESS_FLAGS => qp_access_flags: access(inner),
    })
}

/// The code of the RNR timer for a peer with this RNR retry count, if known.
fn rnr_timer(retries: Option<u8>) -> u8 {
    match retries {
        Some(NO_LIMIT) => SHORT_RNR_TIMER,
        _ => LONG_RNR_TIMER,
    }
}

fn rts(inner: &Inner) -> Attributes {
    let peer = inner.peer;
    attributes! {
        QP_SQ_PSN => sq_psn: peer.psn,
        QP_TIMEOUT => timeout: inner.options.ack_timeout.unwrap_or(peer.ack_timeout),
        QP_RETRY_CNT => retry_cnt: peer.retry_count,
        QP_RNR_RETRY => rnr_retry: peer.rnr_retry_count,
        QP_MAX_QP_RD_ATOMIC => max_rd_atomic: peer.initiator_depth,
    }
}

/// `rdma_init_qp_attr`: for programs that manage their QPs themselves.
pub(crate) extern "C" fn init_qp_attr(
    id: *mut RdmaCmId,
    attr: Out<IbvQpAttr>,
    mask: Out<c_int>,
) -> c_int {
    guard::minus_one("rdma_init_qp_attr", || {
        let id = find(id)?;
        let state = attr.get()?.qp_state;
        let (found, bits) = of(&id, &id.inner.lock(), state)?;
        mask.put(bits.cast_signed())?;
        attr.put(found)
    })
}
