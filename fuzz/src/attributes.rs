//! The attributes that bring each kind of QP to RTS.

use crate::{MTU, Peer, address};
use roce_stack::{Access, QpAttributes, QpKind, QpState, TxMeta};
use roce_wire::{QKey, RnrTimer};

/// The Q_Key of all UD QPs.
pub const QKEY: QKey = QKey(0x1234);

/// Attributes that change only the state.
pub fn to_state(state: QpState) -> QpAttributes {
    QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    }
}

pub(crate) fn init(kind: QpKind) -> QpAttributes {
    let datagram = kind == QpKind::Ud;
    let access =
        Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL;
    QpAttributes {
        access: (!datagram).then_some(access),
        qkey: datagram.then_some(QKEY),
        ..to_state(QpState::Init)
    }
}

pub(crate) fn rtr(kind: QpKind, host: u8, peer: Peer) -> QpAttributes {
    if kind == QpKind::Ud {
        return to_state(QpState::Rtr);
    }
    let responds = matches!(kind, QpKind::Rc | QpKind::XrcTarget);
    QpAttributes {
        dest_qpn: Some(peer.qpn),
        path: Some(TxMeta {
            src: address(host),
            dst: address(peer.host),
            traffic_class: 0,
            hop_limit: 64,
            version: roce_stack::RoceVersion::V2,
        }),
        path_mtu: Some(MTU),
        rq_psn: Some(peer.psn),
        max_dest_rd_atomic: responds.then_some(4),
        min_rnr_timer: RnrTimer::from_code(1).filter(|_| responds),
        ..to_state(QpState::Rtr)
    }
}

pub(crate) fn rts(kind: QpKind, peer: Peer) -> QpAttributes {
    let requests = matches!(kind, QpKind::Rc | QpKind::XrcInitiator);
    let acknowledges = requests || kind == QpKind::XrcTarget;
    QpAttributes {
        sq_psn: Some(peer.own_psn),
        timeout: acknowledges.then_some(8),
        retry_cnt: requests.then_some(3),
        rnr_retry: requests.then_some(6),
        max_rd_atomic: requests.then_some(4),
        ..to_state(QpState::Rts)
    }
}
