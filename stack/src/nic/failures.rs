//! The failures of QPs, and their reports.

use super::Nic;
use crate::cause::Failure;
use crate::hash::KeyMap;
use crate::mismatch::Mismatch;
use roce_wire::Qpn;
use std::collections::VecDeque;

/// The number of failures that wait to be polled. If there are more, the first ones are reported: they
/// tell most.
const MAX_WAITING: usize = 256;

/// The first failure of each QP.
#[derive(Debug, Default)]
pub(super) struct Failures {
    of_qps: KeyMap<Failure>,
    waiting: VecDeque<Failure>,
}

impl Failures {
    /// Notes a failure, unless the QP has failed before.
    #[cold]
    pub(super) fn note(&mut self, failure: Failure) {
        let before = self.of_qps.entry(failure.qpn.get());
        if let std::collections::hash_map::Entry::Vacant(free) = before {
            free.insert(failure);
            if self.waiting.len() < MAX_WAITING {
                self.waiting.push_back(failure);
            }
        }
    }

    /// The QP is reset, sends again after an error of its send queue, or is gone.
    pub(super) fn forget(&mut self, qpn: Qpn) {
        if !self.of_qps.is_empty() {
            self.of_qps.remove(&qpn.get());
        }
    }
}

impl Nic {
    /// Why a QP failed; `None` if it has not, or if there is no such QP.
    pub fn failure(&self, qpn: Qpn) -> Option<&Failure> {
        self.failures.of_qps.get(&qpn.get())
    }

    /// Whether [`Nic::poll_failure`] would return a failure.
    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.failures.waiting.is_empty()
    }

    /// Whether [`Nic::poll_mismatch`] would return something.
    #[inline]
    pub fn has_mismatches(&self) -> bool {
        self.mismatches.has_any()
    }

    /// Takes the oldest report about packets that do not fit a QP of this end; `None` if there is none.
    pub fn poll_mismatch(&mut self) -> Option<Mismatch> {
        self.mismatches.poll()
    }

    /// Takes the oldest failure that has not been polled; `None` if there is none.
    pub fn poll_failure(&mut self) -> Option<Failure> {
        self.failures.waiting.pop_front()
    }
}
