//! What each QP has sent and received.

use crate::counters::{Counters, Stat};

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
pub(crate) struct Sums([u64; 3]);

impl Sums {
    #[inline]
    pub(crate) fn of(counters: &Counters) -> Self {
        Self([Stat::TxPackets, Stat::TxBytes, Stat::Retransmitted].map(|stat| counters.stat(stat)))
    }
}

impl QpTraffic {
    /// A packet has come with so many bytes of payload.
    #[inline]
    pub(crate) fn note_received(&mut self, bytes: usize) {
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// What the NIC has sent since `before` was this QP's.
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
