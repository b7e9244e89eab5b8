//! The status of a QP, for monitoring.

use super::Nic;
use crate::congestion::QpCongestion;
use crate::encapsulation::TxMeta;
use crate::kind::{QpKind, QpState};
use crate::time::Instant;
use crate::traffic::QpTraffic;
use roce_wire::{PathMtu, Qpn};

/// A QP at one moment: [`Nic::qp_status`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QpStatus {
    /// Its transport service.
    pub kind: QpKind,
    /// Its state.
    pub state: QpState,
    /// The peer's QP, if it has one peer and knows it.
    pub peer: Option<Qpn>,
    /// The path to its peer, if it knows one.
    pub path: Option<TxMeta>,
    /// The largest payload of its packets.
    pub path_mtu: PathMtu,
    /// Send requests that have not completed.
    pub sends: usize,
    /// Receive requests of its own queue that have not completed.
    pub receives: usize,
    /// Bytes that the peer has not acknowledged yet, in whole packets.
    pub in_flight_bytes: u64,
    /// The length in bytes of the longest send request that the peer has answered; 0 if there is none.
    pub longest_answered: u32,
    /// Whether a NAK, with which it refuses a request of the peer, is still to be sent.
    pub nak_follows: bool,
    /// Its traffic so far.
    pub traffic: QpTraffic,
    /// Its congestion state.
    pub congestion: QpCongestion,
}

impl Nic {
    /// The numbers of all QPs, in no particular order.
    pub fn qpns(&self) -> Vec<Qpn> {
        self.qps.iter().map(|qp| qp.qpn()).collect()
    }

    /// The status of a QP as of `now`; `None` if there is no such QP.
    pub fn qp_status(&self, now: Instant, qpn: Qpn) -> Option<QpStatus> {
        let qp = self.qps.get(qpn)?;
        let (sends, receives) = qp.queued();
        let config = qp.config();
        Some(QpStatus {
            kind: qp.kind(),
            state: qp.state(),
            peer: config.path.map(|_| config.dest_qpn),
            path: config.path,
            path_mtu: config.path_mtu,
            sends,
            receives,
            in_flight_bytes: qp.in_flight(),
            longest_answered: qp.longest_answered(),
            nak_follows: qp.has_nak_to_send(),
            traffic: qp.traffic,
            congestion: qp.congestion(now, &self.shared.congestion.control),
        })
    }
}
