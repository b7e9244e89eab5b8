//! Prefetching: loads the next QP's memory into the cache while the CPU does other work.

use super::Nic;
use roce_wire::Bth;

impl Nic {
    /// Prefetches the QP that the packet names, which is needed once the ICRC has been verified.
    pub(super) fn prefetch_for_packet(&mut self, transport: &[u8]) {
        let Some(qpn) = Bth::dest_qpn_of(transport) else {
            return;
        };
        if qpn != core::mem::replace(&mut self.last_qpn, qpn)
            && let Some(handle) = self.qps.find(qpn)
        {
            self.qps.prefetch(handle);
        }
    }

    /// Prefetches for the next two QPs in the list of turns: the work requests of the first, which
    /// was itself prefetched one turn ago, and the second QP itself.
    pub(super) fn prefetch_for_turn(&self) {
        if let Some(next) = self.ready.front().and_then(|next| self.qps.at(*next)) {
            next.qp.prefetch_for_turn();
        }
        if let Some(second) = self.ready.get(1) {
            self.qps.prefetch(*second);
        }
    }
}
