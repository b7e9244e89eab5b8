//! What a QP is to be told, for each state that it goes to.

use super::id::{Id, Inner, State, find};
use super::{path, qp};
use crate::abi::*;
use crate::guard;
use crate::pointer::Out;
use nix::errno::Errno;
use roce_verbs::QpKind;
use std::ffi::c_int;

/// How long a peer waits after an RNR NAK that it takes any number of: 0.64 ms.
const SHORT_RNR_TIMER: u8 = 12;

/// How long one waits that gives up after a few: 655.36 ms, as Linux has it for all. What a
/// program asks for was chosen with that: five times 0.64 ms is less than a busy machine takes
/// to come back to who is about to post a receive.
const LONG_RNR_TIMER: u8 = 0;

/// The count of repetitions that stands for any number of them.
const FOR_EVER: u8 = 7;

/// Attributes, and which of them are set.
pub(super) type Attributes = (IbvQpAttr, u32);

/// What only QPs have whose requests are acknowledged.
const OF_REQUESTER: u32 = QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC;

/// What only QPs have that acknowledge requests.
const OF_RESPONDER: u32 = QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;

/// # Errors
/// `EINVAL` for a state that QPs do not go to on their way to their peer, or if it takes what
/// is not known yet.
pub(super) fn of(id: &Id, inner: &Inner, state: u32) -> Result<Attributes, Errno> {
    inner.device()?;
    let unused = unused(qp::kind(&id.c.get())?);
    let (mut attr, mut mask) = match (state, id.is_datagram) {
        (QPS_INIT, true) => init_datagram(),
        (QPS_INIT, false) => init(inner),
        (QPS_RTR, true) => (IbvQpAttr::unset(), 0),
        (QPS_RTR, false) => rtr(inner)?,
        (QPS_RTS, true) => rts_datagram(inner),
        (QPS_RTS, false) => rts(inner),
        _ => return Err(Errno::EINVAL),
    };
    attr.qp_state = state;
    mask &= !unused;
    Ok((attr, mask | QP_STATE))
}

/// What a kind of QPs has no use for, of all that is set here.
fn unused(kind: QpKind) -> u32 {
    match kind {
        QpKind::Uc => OF_REQUESTER | OF_RESPONDER | QP_TIMEOUT,
        QpKind::XrcInitiator => OF_RESPONDER,
        QpKind::XrcTarget => OF_REQUESTER,
        _ => 0,
    }
}

fn init_datagram() -> Attributes {
    let attr = IbvQpAttr {
        qkey: UDP_QKEY,
        port_num: 1,
        ..IbvQpAttr::unset()
    };
    (attr, QP_PKEY_INDEX | QP_PORT | QP_QKEY)
}

fn rts_datagram(inner: &Inner) -> Attributes {
    let attr = IbvQpAttr {
        sq_psn: inner.psn,
        ..IbvQpAttr::unset()
    };
    (attr, QP_SQ_PSN)
}

fn init(inner: &Inner) -> Attributes {
    let attr = IbvQpAttr {
        port_num: 1,
        qp_access_flags: access(inner),
        ..IbvQpAttr::unset()
    };
    (attr, QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS)
}

/// What the peer may do. That it may read shows in how many READs it may send.
fn access(inner: &Inner) -> u32 {
    let write = ACCESS_REMOTE_WRITE;
    if inner.peer.responder_resources == 0 {
        write
    } else {
        write | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC
    }
}

fn rtr(inner: &Inner) -> Result<Attributes, Errno> {
    inner.check(&[
        State::Requested,
        State::Connecting,
        State::Replied,
        State::Connected,
    ])?;
    let peer = inner.peer;
    if peer.qpn == 0 {
        // It has not answered yet.
        return Err(Errno::EINVAL);
    }
    let attr = IbvQpAttr {
        ah_attr: path::to_peer(inner)?,
        path_mtu: peer.mtu,
        dest_qp_num: peer.qpn,
        // Each side chose with which PSN its peer begins.
        // rule: 12.6.5-starting-psn
        rq_psn: inner.psn,
        max_dest_rd_atomic: peer.responder_resources,
        min_rnr_timer: rnr_timer(inner.rnr_retries_of_peer),
        qp_access_flags: access(inner),
        ..IbvQpAttr::unset()
    };
    let mask = QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_ACCESS_FLAGS;
    Ok((attr, mask | QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER))
}

/// For a peer that was asked to repeat so often, or was not asked yet.
fn rnr_timer(retries: Option<u8>) -> u8 {
    match retries {
        Some(FOR_EVER) => SHORT_RNR_TIMER,
        _ => LONG_RNR_TIMER,
    }
}

fn rts(inner: &Inner) -> Attributes {
    let peer = inner.peer;
    let attr = IbvQpAttr {
        sq_psn: peer.psn,
        timeout: inner.options.ack_timeout.unwrap_or(peer.ack_timeout),
        retry_cnt: peer.retry_count,
        rnr_retry: peer.rnr_retry_count,
        max_rd_atomic: peer.initiator_depth,
        ..IbvQpAttr::unset()
    };
    let mask = QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY;
    (attr, mask | QP_MAX_QP_RD_ATOMIC)
}

/// `rdma_init_qp_attr`: for programs that see to their QPs themselves.
pub(crate) extern "C" fn init_qp_attr(
    id: *mut RdmaCmId,
    attr: Out<IbvQpAttr>,
    mask: Out<c_int>,
) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let state = attr.get()?.qp_state;
        let (found, bits) = of(&id, &id.inner.lock(), state)?;
        mask.put(bits.cast_signed())?;
        attr.put(found)
    })
}
