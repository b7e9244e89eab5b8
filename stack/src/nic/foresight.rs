//! Knowing which QP comes next: its memory is brought near while there is other work.

use super::Nic;
use roce_wire::Qpn;

/// Where a packet says which QP it is for (IBTA 1.7, 9.2).
const DEST_QPN: core::ops::Range<usize> = 5..8;

impl Nic {
    /// The packet, whatever it is, will be looked at once its ICRC has been verified.
    pub(super) fn foresee_packet(&mut self, transport: &[u8]) {
        let Some(&[high, middle, low]) = transport.get(DEST_QPN) else {
            return;
        };
        let qpn = Qpn::from_bits(u32::from_be_bytes([0, high, middle, low]));
        if qpn != core::mem::replace(&mut self.newest, qpn)
            && let Some(handle) = self.qps.find(qpn)
        {
            self.qps.bring_near(handle);
        }
    }

    /// A QP is about to have its turn to send: the ones behind it are next. The memory of the
    /// first is near already, so this can follow it to its requests.
    pub(super) fn foresee_turn(&self) {
        if let Some(next) = self.ready.front().and_then(|next| self.qps.at(*next)) {
            next.qp.foresee_turn();
        }
        if let Some(second) = self.ready.get(1) {
            self.qps.bring_near(*second);
        }
    }
}
