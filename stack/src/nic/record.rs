//! Records the events of QPs.

use super::Nic;
use crate::recorder::{Recorded, Recorder};
use roce_wire::Qpn;

impl Nic {
    /// Whether QPs that are created from now on record their events, the last 32 of each; not by
    /// default. [`Nic::recorded`] returns them. It takes 520 bytes for each QP.
    pub fn record_events(&mut self, on: bool) {
        self.records = on;
    }

    /// The last events of a QP, oldest first; none if it is not recorded, or if there is no such QP.
    ///
    /// After a failure of the QP, the packets that it sends are still recorded, but not those that
    /// it drops.
    pub fn recorded(&self, qpn: Qpn) -> Vec<Recorded> {
        let recorder = self.qps.recorder(qpn);
        recorder.map_or_else(Vec::new, Recorder::events)
    }

    /// The recorder of a new QP.
    pub(super) fn new_recorder(&self) -> Option<Box<Recorder>> {
        self.records.then(|| Box::new(Recorder::new()))
    }
}
