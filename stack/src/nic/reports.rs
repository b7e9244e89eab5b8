//! Reports to the port: which of the packets that it keeps in memory it may release.

use super::{Handle, Nic};
use crate::qp::Report;
use crate::transmit::{Acknowledged, Flow, Transmit};
use core::hint::cold_path;

/// The reports that have not been passed to the port yet.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// QPs whose peers have acknowledged packets, each once.
    acknowledged: Vec<Handle>,
    /// Flows that ended while the port still kept some of their packets.
    ended: Vec<Flow>,
}

impl Reports {
    pub(super) fn note(&mut self, handle: Handle, report: Report) {
        match report {
            Report::Acknowledged => self.acknowledged.push(handle),
            Report::Ended(flow) => self.ended.push(flow),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.ended.is_empty()
    }
}

impl Nic {
    /// Passes to the port all reports that it has not received yet.
    #[inline]
    pub(super) fn report(&mut self, port: &mut dyn Transmit) {
        if !self.reports.is_empty() {
            cold_path();
            self.report_all(port);
        }
    }

    #[inline(never)]
    fn report_all(&mut self, port: &mut dyn Transmit) {
        for flow in self.reports.ended.drain(..) {
            port.acknowledged(flow, Acknowledged::All);
        }
        for handle in self.reports.acknowledged.drain(..) {
            let slot = self.qps.at_mut(handle);
            // If the QP's flow has ended in the meantime, there is nothing to report.
            if let Some((flow, before)) = slot.and_then(|slot| slot.qp.take_acknowledged()) {
                port.acknowledged(flow, Acknowledged::Before(before));
            }
        }
    }
}
