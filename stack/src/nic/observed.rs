//! Failures, recorded events and mismatches of QPs, for callers to poll; and interceptors of completions.

use super::Nic;
use crate::cause::Failure;
use crate::mismatch::Mismatch;
use crate::observe::{Interceptor, Recorded};
use crate::time::Instant;
use roce_wire::Qpn;

impl Nic {
    /// Why a QP failed; `None` if it has not, or if there is no such QP.
    pub fn failure(&self, qpn: Qpn) -> Option<&Failure> {
        self.observed.failures.of(qpn)
    }

    /// Whether [`Nic::poll_failure`] would return a failure.
    #[inline]
    pub fn has_failures(&self) -> bool {
        self.observed.failures.has_any()
    }

    /// Takes the oldest failure that has not been polled; `None` if there is none.
    pub fn poll_failure(&mut self) -> Option<Failure> {
        self.observed.failures.poll()
    }

    /// Whether [`Nic::poll_mismatch`] would return something.
    #[inline]
    pub fn has_mismatches(&self) -> bool {
        self.observed.mismatches.has_any()
    }

    /// Takes the oldest report about packets that do not fit a QP of this end; `None` if there is none.
    pub fn poll_mismatch(&mut self) -> Option<Mismatch> {
        self.observed.mismatches.poll()
    }

    /// Whether QPs that are created from now on record their events, the last 32 of each; not by
    /// default. [`Nic::recorded`] returns them. It takes 520 bytes for each QP.
    pub fn record_events(&mut self, on: bool) {
        self.observed.record(on);
    }

    /// The last events of a QP, oldest first; none if it is not recorded, or if there is no such QP.
    ///
    /// After a failure of the QP, the packets that it sends are still recorded, but not those that
    /// it drops.
    pub fn recorded(&self, qpn: Qpn) -> Vec<Recorded> {
        let slot = self.qps.find(qpn).and_then(|handle| self.qps.at(handle));
        slot.map_or_else(Vec::new, |slot| slot.trace.events())
    }

    /// Lets `interceptor` decide about each completion from now on, to inject faults.
    pub fn intercept_completions(&mut self, interceptor: Box<dyn Interceptor>) {
        self.observed.intercept(interceptor);
    }

    /// Delivers the late completions that are due. One that does not fit in its CQ fails its QP.
    #[cold]
    pub(super) fn deliver_late(&mut self, now: Instant) {
        while let Some(delivery) = self.observed.take_late(now) {
            let qpn = delivery.completion.qpn;
            self.with_qp(now, qpn, |qp, cx| qp.deliver_late(cx, delivery));
        }
    }
}
