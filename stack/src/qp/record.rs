//! What a QP records of itself; see [`crate::recorder`]. If nothing is recorded, each of these is one
//! branch.

use super::{Cx, Qp};
use crate::counters::DropReason;
use crate::kind::QpState;
use crate::recorder::{Entry, Verdict};
use roce_wire::{Packet, Syndrome};

impl Cx<'_> {
    /// Records an event.
    #[inline(always)]
    pub(crate) fn record(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(self.now, entry());
        }
    }

    /// Records a packet that has arrived, as accepted.
    #[inline(always)]
    pub(crate) fn record_received(&mut self, packet: &Packet<'_>) {
        let bth = &packet.bth;
        self.record(|| Entry::received(bth.opcode, bth.psn, packet.payload.len()));
    }

    /// Adds the syndrome to the packet that was just recorded. Packets without this count as ACKs,
    /// as nearly all are.
    #[cold]
    pub(crate) fn add_syndrome(&mut self, syndrome: Syndrome) {
        if let Some(recorder) = &mut self.recorder {
            recorder.add_syndrome(syndrome);
        }
    }

    /// Adds the syndrome of a packet that was just recorded, if it has one.
    #[cold]
    pub(crate) fn add_syndrome_of(&mut self, packet: &Packet<'_>) {
        if let Some(aeth) = &packet.ext.aeth {
            self.add_syndrome(aeth.syndrome);
        }
    }

    /// Makes one event of packets in the middle of a message, the last of which was just recorded.
    #[inline]
    pub(crate) fn merge_middle(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.merge_middle();
        }
    }

    /// The packet that was just recorded was not sent.
    #[cold]
    pub(crate) fn unrecord(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.remove_newest();
        }
    }

    /// The port can't send the packet that was just recorded.
    #[cold]
    pub(crate) fn mark_unsendable(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark_unsendable();
        }
    }

    /// The packet that was just sent had been sent before.
    #[cold]
    pub(crate) fn mark_retransmitted(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark_retransmitted();
        }
    }

    /// Corrects what was recorded of the packet that is being handled.
    #[cold]
    pub(crate) fn judge(&mut self, verdict: Verdict) {
        if let Some(recorder) = &mut self.recorder {
            recorder.judge(verdict);
        }
    }

    /// Drops the packet that is being handled.
    #[cold]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.counters.drop(reason);
        self.judge(Verdict::Dropped(reason));
    }

    /// Drops packets that had been kept.
    #[cold]
    pub(crate) fn drop_kept(&mut self, packets: u64, reason: DropReason) {
        for _ in 0..packets {
            self.counters.drop(reason);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.drop_kept(self.now, packets, reason);
        }
    }
}

impl Qp {
    /// Drops a packet that the QP does not admit. After a failure such packets are not recorded,
    /// because they would replace those before it.
    #[cold]
    pub(super) fn drop_unadmitted(&self, cx: &mut Cx<'_>, packet: &Packet<'_>, reason: DropReason) {
        if self.core.state == QpState::Err {
            cx.counters.drop(reason);
            return;
        }
        cx.record_received(packet);
        cx.add_syndrome_of(packet);
        cx.drop(reason);
    }
}
