//! Writes why the QPs of a device fail, as they fail.

use super::unfit::UnfitPackets;
use super::{Evidence, Explanation, WhyLog};
use crate::{DeviceNames, DeviceView};
use roce_stack::{Cause, Failure, Mismatch};
use std::cell::OnceCell;

/// Writes why the QPs of an open device fail.
#[derive(Debug)]
pub struct Explainer {
    names: DeviceNames,
    log: Option<WhyLog>,
    evidence: Evidence,
}

impl Explainer {
    pub(crate) fn new(names: DeviceNames, log: Option<WhyLog>) -> Self {
        Self {
            names,
            log,
            evidence: Evidence::default(),
        }
    }

    /// Where the evidence of lost packets is found, to explain failures when the program asks.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Takes note that the datapath has started.
    pub fn start(&self) {
        self.evidence.begin(&self.names.interface);
    }

    /// Writes about QPs that have failed, and about packets that do not fit a QP.
    #[cold]
    pub fn explain(&mut self, view: &DeviceView<'_>, failed: Vec<Failure>, unfit: Vec<Mismatch>) {
        let Some(log) = &mut self.log else { return };
        let name = &self.names.device;
        // One look at the kernel for all of them: no packet moves meanwhile.
        let seen = OnceCell::new();
        for failure in failed {
            if log.admits(&failure) {
                let kernel = self.evidence.of(&failure);
                let kernel = kernel.and_then(|kernel| seen.get_or_init(|| kernel.look()).as_ref());
                log.write(Explanation::new(name, failure, view, kernel));
            }
        }
        for mismatch in unfit {
            // The failure of the QP explains them.
            let failure = view.nic.failure(mismatch.qpn);
            let is_explained = failure.is_some_and(|failure| failure.cause != Cause::Application);
            if !is_explained && log.has_room(view.now) {
                let status = view.nic.qp_status(view.now, mismatch.qpn);
                let kind = status.map(|status| status.kind);
                log.write_unfit(&UnfitPackets::new(name, kind, &mismatch));
            }
        }
    }
}
