//! Explanations of failures, and the counters that they are made from.

use super::Engine;
use crate::why::{
    Cause, Explanation, Failure, KernelView, LossSigns, Places, UnfitPackets, is_of_lost_packets,
};
use roce_stack::Mismatch;
use std::cell::OnceCell;

impl Engine {
    /// Writes why QPs have failed in this turn.
    #[cold]
    pub(super) fn explain_failures(&mut self) {
        // One view for all of them: no packet moves while it is made.
        let kernel = self.kernel.clone();
        let view = OnceCell::new();
        while let Some(failure) = self.nic.poll_failure() {
            if self.why.as_mut().is_some_and(|log| log.admits(&failure)) {
                let kernel = kernel.as_deref().filter(|_| is_of_lost_packets(&failure));
                let view = kernel.and_then(|kernel| view.get_or_init(|| kernel.look()).as_ref());
                let explanation = self.explain(failure, view);
                if let Some(log) = &mut self.why {
                    log.write(explanation);
                }
            }
        }
    }

    /// Writes about packets that do not fit a QP, unless it has failed: that explains them.
    #[cold]
    pub(super) fn explain_mismatch(&mut self, mismatch: &Mismatch) {
        let failure = self.nic.failure(mismatch.qpn);
        if failure.is_some_and(|failure| failure.cause != Cause::Application) {
            return;
        }
        let Some(log) = &mut self.why else { return };
        if log.has_room(self.latest) {
            let status = self.nic.qp_status(self.latest, mismatch.qpn);
            let kind = status.map(|status| status.kind);
            log.write_unfit(&UnfitPackets::new(&self.device, kind, mismatch));
        }
    }

    /// Explains a failure. `view` is what the kernel shows, if packets got lost
    /// ([`is_of_lost_packets`]).
    #[cold]
    pub(crate) fn explain(&self, failure: Failure, view: Option<&KernelView<'_>>) -> Explanation {
        let port_counters = self.port.each_counter();
        let places = Places {
            nic: &self.nic,
            port_counters: &port_counters,
            kernel: view,
        };
        Explanation::new(&self.device, failure, &places)
    }

    /// Copies what evidence about lost datagrams is gathered from, for a caller that gathers it
    /// without the lock: that takes long, and no packet would move meanwhile.
    pub(crate) fn loss_signs(&self) -> LossSigns {
        LossSigns {
            port_counters: self.port.each_counter(),
            kernel: self.kernel.clone(),
        }
    }
}
