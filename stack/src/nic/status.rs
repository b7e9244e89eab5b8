//! What a QP is and does, for who watches it.

use super::Nic;
use crate::congestion::QpCongestion;
use crate::counters::{Counters, Stat};
use crate::encapsulation::TxMeta;
use crate::qp::{QpKind, QpState};
use crate::time::Instant;
use roce_wire::{PathMtu, Qpn};

/// What a QP has sent and received since it was made, RESET or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpTraffic {
    /// Packets sent, acknowledgements and CNPs too.
    pub tx_packets: u64,
    /// Payload bytes of those.
    pub tx_bytes: u64,
    /// Packets received with the right ICRC; of those, some may still have been dropped.
    pub rx_packets: u64,
    /// Payload bytes of those.
    pub rx_bytes: u64,
    /// Packets sent that had been sent before.
    pub retransmitted: u64,
}

/// Those of a NIC's counters that are also counted for each QP.
pub(super) struct Sums([u64; 3]);

impl Sums {
    #[inline]
    pub(super) fn of(counters: &Counters) -> Self {
        Self([Stat::TxPackets, Stat::TxBytes, Stat::Retransmitted].map(|stat| counters.stat(stat)))
    }
}

impl QpTraffic {
    /// A packet has come with so many bytes of payload.
    #[inline]
    pub(super) fn note_received(&mut self, bytes: usize) {
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// What the NIC has sent since `before` was this QP's.
    #[inline]
    pub(super) fn note_sent(&mut self, before: &Sums, counters: &Counters) {
        let Sums([packets, bytes, retransmitted]) = Sums::of(counters);
        if packets == before.0[0] {
            return;
        }
        self.tx_packets += packets - before.0[0];
        self.tx_bytes += bytes - before.0[1];
        self.retransmitted += retransmitted - before.0[2];
    }
}

/// A QP at one moment: [`Nic::qp_status`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QpStatus {
    /// Its transport service.
    pub kind: QpKind,
    /// Its state.
    pub state: QpState,
    /// The peer's QP, if it has one peer and knows it.
    pub peer: Option<Qpn>,
    /// The way to its peer, if it knows it.
    pub path: Option<TxMeta>,
    /// The most payload of its packets.
    pub path_mtu: PathMtu,
    /// Send requests that have not completed.
    pub sends: usize,
    /// Receive requests of its own queue that have not completed.
    pub receives: usize,
    /// Bytes that the peer has not acknowledged yet, in whole packets.
    pub in_flight_bytes: u64,
    /// What it has sent and received.
    pub traffic: QpTraffic,
    /// What congestion control has made of it.
    pub congestion: QpCongestion,
}

impl Nic {
    /// The numbers of all QPs, in no order.
    pub fn qpns(&self) -> Vec<Qpn> {
        self.qps.iter().map(|qp| qp.qpn()).collect()
    }

    /// A QP as of `now`; `None` if there is no such QP.
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
            traffic: qp.traffic,
            congestion: qp.congestion(now, &self.congestion.control),
        })
    }
}
