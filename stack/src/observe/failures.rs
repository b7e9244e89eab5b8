//! The failures of QPs.

use crate::cause::Failure;
use crate::hash::KeyMap;
use roce_wire::Qpn;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// The number of failures that wait to be polled. If there are more, the first ones are reported: they
/// tell most.
const MAX_WAITING: usize = 256;

/// The first failure of each QP.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    of_qps: KeyMap<Failure>,
    waiting: VecDeque<Failure>,
}

impl Failures {
    /// Notes a failure, unless the QP has failed before.
    #[cold]
    pub(super) fn note(&mut self, failure: Failure) {
        if let Entry::Vacant(free) = self.of_qps.entry(failure.qpn.get()) {
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

    /// Why a QP failed.
    pub(crate) fn of(&self, qpn: Qpn) -> Option<&Failure> {
        self.of_qps.get(&qpn.get())
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn poll(&mut self) -> Option<Failure> {
        self.waiting.pop_front()
    }
}
