//! Fault injection.

use super::Nic;
use crate::injected::{CompletionFaults, InjectedFaults};
use crate::time::Instant;

impl Nic {
    /// Lets `faults` decide about each completion from now on.
    pub fn inject_completion_faults(&mut self, faults: Box<dyn CompletionFaults>) {
        self.injected = Some(Box::new(InjectedFaults::new(faults)));
    }

    /// When the next late completion is delivered.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.injected.as_ref()?.next()
    }

    /// Delivers the late completions that are due. One that does not fit in its CQ fails its QP.
    pub(super) fn deliver_late(&mut self, now: Instant) {
        let due = |nic: &mut Self| nic.injected.as_mut()?.take_due(now);
        while let Some(delivery) = due(self) {
            let qpn = delivery.completion.qpn;
            self.with_qp(now, qpn, |qp, cx| qp.deliver_late(cx, delivery));
        }
    }
}
