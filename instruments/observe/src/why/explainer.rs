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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::WhyOutput;
    use roce_port::MemoryPort;
    use roce_stack::{Instant, Nic, NicConfig};
    use roce_wire::{Psn, Qpn};
    use std::sync::atomic::Ordering;

    /// No packet moves while the kernel is asked, and many QPs may fail in one turn.
    #[test]
    fn one_look_at_the_kernel_explains_all_failures_of_a_turn() {
        const QPS: u32 = 30;
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("why.jsonl");
        let log = WhyLog::new(Some(WhyOutput::File(report.clone())), None);
        let names = DeviceNames {
            device: "roce_lo".to_owned(),
            interface: "lo".to_owned(),
        };
        let mut explainer = Explainer::new(names, Some(log));
        explainer.start();
        let nic = Nic::new(&NicConfig {
            seed: [0; 32],
            max_packet_bytes: 4096,
            window_bytes: 1 << 20,
        });
        let view = DeviceView {
            now: Instant::ZERO,
            nic: &nic,
            port: &MemoryPort::default(),
        };
        let failure = |number| Failure {
            qpn: Qpn::new(number).expect("24 bits"),
            at: Instant::ZERO,
            status: None,
            queued: (0, 0),
            request: None,
            cause: Cause::NoAnswer {
                psn: Psn::new(0),
                timeout: None,
                retries: 7,
                ever_answered: false,
            },
        };
        explainer.explain(&view, (0..QPS).map(failure).collect(), Vec::new());
        let kernel = explainer.evidence.of(&failure(0)).expect("/proc is there");
        assert_eq!(kernel.looks.load(Ordering::Relaxed), 1);
        let lines = std::fs::read_to_string(&report).expect("a report");
        assert_eq!(lines.lines().count(), QPS as usize);
    }
}
