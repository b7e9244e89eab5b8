//! Which packets the port keeps in memory until it is told of their arrival.

use crate::seq::Seq;
use core::hint::cold_path;

/// What the port keeps of one requester's packets.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// One past the last packet that the port keeps; `None` if it keeps none.
    end: Option<Seq>,
    /// The NIC knows that there is something to report.
    announced: bool,
}

impl Held {
    /// The packet at `at` was sent, and the port keeps its memory if `kept`.
    #[inline]
    pub(super) fn note(&mut self, kept: bool, at: Seq) {
        if kept {
            cold_path();
            self.end = self.end.max(Some(at.next()));
        }
    }

    /// Packets were acknowledged. Returns whether the NIC has to be told to report it.
    #[inline]
    pub(super) fn on_progress(&mut self) -> bool {
        if self.end.is_none() {
            return false;
        }
        cold_path();
        !core::mem::replace(&mut self.announced, true)
    }

    /// Everything before `una` is acknowledged: whether there is something to report.
    pub(super) fn take(&mut self, una: Seq) -> bool {
        self.announced = false;
        let kept = self.end.is_some();
        self.end = self.end.filter(|end| *end > una);
        kept
    }

    /// Nothing is retransmitted any more: whether there is something to report.
    pub(super) fn end(&mut self) -> bool {
        self.announced = false;
        self.end.take().is_some()
    }
}
