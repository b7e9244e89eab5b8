//! The traffic of each QP.

use crate::counters::{Counters, Stat};

/// What a QP has sent and received since it was created; RESET does not clear it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpTraffic {
    /// Packets sent, including acknowledgements and CNPs.
    pub tx_packets: u64,
    /// Payload bytes of the packets sent.
    pub tx_bytes: u64,
    /// Packets received with a correct ICRC, including those that were dropped later.
    pub rx_packets: u64,
    /// Payload bytes of the packets received.
    pub rx_bytes: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
}

/// The counters of a NIC that are also counted for each QP.
pub(crate) struct Sums([u64; 3]);

impl Sums {
    #[inline]
    pub(crate) fn of(counters: &Counters) -> Self {
        Self([Stat::TxPackets, Stat::TxBytes, Stat::Retransmitted].map(|stat| counters.stat(stat)))
    }
}

impl QpTraffic {
    /// Counts a received packet with `bytes` of payload.
    #[inline]
    pub(crate) fn note_received(&mut self, bytes: usize) {
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Counts what the NIC has sent since `before` as sent by this QP.
    #[inline]
    pub(crate) fn note_sent(&mut self, before: &Sums, counters: &Counters) {
        let Sums([packets, bytes, retransmitted]) = Sums::of(counters);
        if packets == before.0[0] {
            return;
        }
        self.tx_packets += packets - before.0[0];
        self.tx_bytes += bytes - before.0[1];
        self.retransmitted += retransmitted - before.0[2];
    }
}
