//! Tracks which sent packets the port keeps in memory until the NIC reports them as acknowledged.

use crate::seq::Seq;
use core::hint::cold_path;

/// The packets of one requester that the port keeps.
#[derive(Debug, Default)]
pub(super) struct KeptPackets {
    /// One past the last packet that the port keeps; `None` if it keeps none.
    end: Option<Seq>,
    /// The NIC has scheduled a report.
    report_pending: bool,
}

impl KeptPackets {
    /// Notes that the packet at `at` was sent, and whether the port keeps its memory.
    #[inline]
    pub(super) fn note(&mut self, kept: bool, at: Seq) {
        if kept {
            cold_path();
            self.end = self.end.max(Some(at.next()));
        }
    }

    /// Notes that packets were acknowledged. Returns whether the NIC must schedule a report.
    #[inline]
    pub(super) fn on_progress(&mut self) -> bool {
        if self.end.is_none() {
            return false;
        }
        cold_path();
        !core::mem::replace(&mut self.report_pending, true)
    }

    /// Begins a report that everything before `una` is acknowledged. Returns whether the port keeps
    /// a packet that the report concerns.
    pub(super) fn begin_report(&mut self, una: Seq) -> bool {
        self.report_pending = false;
        let kept = self.end.is_some();
        self.end = self.end.filter(|end| *end > una);
        kept
    }

    /// Ends the flow: nothing is retransmitted any more. Returns whether there is something to
    /// report.
    pub(super) fn end(&mut self) -> bool {
        self.report_pending = false;
        self.end.take().is_some()
    }
}
