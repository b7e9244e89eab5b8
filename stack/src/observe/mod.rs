//! The observation seam: what protocol code reports about what happens.
//!
//! The code of QPs and of the NIC calls an [`Observer`], and names nothing else of this module that
//! watches it. Behind it are the flight recorder of each QP ([`recorder`]), the failures of QPs and
//! the packets that do not fit, for those who poll them, and who intercepts completions. The
//! protocol does not depend on any of it. With nothing switched on, what a packet meets here is one
//! branch for each report.

mod failures;
mod intercept;
mod mismatches;
mod recorder;

pub use intercept::{Delivery, Intercepted, Interceptor};
pub use recorder::{QpEvent, Recorded, Verdict};

use crate::cause::{Cause, Failure};
use crate::counters::DropReason;
use crate::kind::QpState;
use crate::mismatch::Mismatch;
use crate::time::Instant;
use crate::wr::WcOpcode;
use failures::Failures;
use mismatches::Mismatches;
use recorder::{Entry, Recorder};
use roce_wire::{Opcode, Packet, Psn, Qpn, Syndrome};

/// Observations of a NIC that wait to be polled.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) failures: Failures,
    pub(crate) mismatches: Mismatches,
    interceptor: Option<Box<dyn Interceptor>>,
    /// Whether new QPs are recorded.
    records: bool,
}

/// The recorded events of one QP.
#[derive(Debug)]
pub(crate) struct Trace(Option<Box<Recorder>>);

impl Trace {
    /// The last events, oldest first.
    pub(crate) fn events(&self) -> Vec<Recorded> {
        self.0.as_ref().map_or_else(Vec::new, |it| it.events())
    }
}

impl Observed {
    /// Whether QPs that are created from now on are recorded.
    pub(crate) fn record(&mut self, on: bool) {
        self.records = on;
    }

    /// The trace of a new QP.
    pub(crate) fn new_trace(&self) -> Trace {
        Trace(self.records.then(|| Box::new(Recorder::new())))
    }

    /// The QP is reset, sends again after an error of its send queue, or is gone.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.failures.forget(qpn);
        self.mismatches.forget(qpn);
    }
}

/// Takes the reports of one call on a QP.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    now: Instant,
    recorder: Option<&'a mut Recorder>,
    observed: &'a mut Observed,
    /// The fault that the code that found it has named. The QP has not failed for that reason yet:
    /// a request that is kept and denied, for instance, is only dropped.
    cause: Option<Cause>,
}

impl<'a> Observer<'a> {
    #[inline(always)]
    pub(crate) fn new(now: Instant, trace: &'a mut Trace, observed: &'a mut Observed) -> Self {
        Self {
            now,
            recorder: trace.0.as_deref_mut(),
            observed,
            cause: None,
        }
    }
}

/// Requests.
impl Observer<'_> {
    #[inline(always)]
    pub(crate) fn posted_send(&mut self, opcode: WcOpcode, bytes: u32) {
        self.record(|| Entry::posted_send(opcode, bytes));
    }

    #[inline]
    pub(crate) fn posted_receive(&mut self) {
        self.record_another(Entry::posted_receive);
    }

    #[cold]
    pub(crate) fn post_refused(&mut self, opcode: WcOpcode) {
        self.record_another(|| Entry::post_refused(opcode));
    }
}

/// Packets that arrive.
impl Observer<'_> {
    /// A packet has arrived. It counts as accepted unless [`Observer::verdict`] follows.
    #[inline(always)]
    pub(crate) fn received(&mut self, packet: &Packet<'_>) {
        let bth = &packet.bth;
        self.record(|| Entry::received(bth.opcode, bth.psn, packet.payload.len()));
    }

    /// The QP has decided what to do with the packet that is being handled.
    #[cold]
    pub(crate) fn verdict(&mut self, verdict: Verdict) {
        if let Some(recorder) = &mut self.recorder {
            recorder.judge(verdict);
        }
    }

    /// The packet that is being handled is dropped.
    #[cold]
    pub(crate) fn dropped(&mut self, reason: DropReason) {
        self.verdict(Verdict::Dropped(reason));
    }

    /// Packets that had been kept are dropped.
    #[cold]
    pub(crate) fn dropped_kept(&mut self, packets: u64, reason: DropReason) {
        if packets > 0 {
            self.record(|| Entry::dropped_kept(packets, reason));
        }
    }

    /// The packet that was just received may have a syndrome that is no ACK's. Packets without this
    /// count as ACKs, as nearly all are.
    #[cold]
    pub(crate) fn syndrome_of(&mut self, packet: &Packet<'_>) {
        if let Some(aeth) = &packet.ext.aeth {
            self.syndrome(aeth.syndrome);
        }
    }

    /// A packet does not fit a QP of this end.
    #[cold]
    pub(crate) fn mismatch(&mut self, mismatch: Mismatch) {
        self.observed.mismatches.note(mismatch);
    }
}

/// Packets that are sent.
impl Observer<'_> {
    /// A packet is about to be sent: reported first, because its fields are in registers then.
    #[inline(always)]
    pub(crate) fn sent(&mut self, opcode: Opcode, psn: Psn, bytes: usize) {
        self.record(|| Entry::sent(opcode, psn, bytes));
    }

    /// Packets in the middle of a message were sent.
    #[inline(always)]
    pub(crate) fn sent_middle(&mut self, opcode: Opcode, first: Psn, packets: u64) {
        self.record(|| Entry::sent_middle(opcode, first, packets));
        self.middle();
    }

    /// The packet that was just reported was not sent.
    #[cold]
    pub(crate) fn not_sent(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.remove_newest();
        }
    }

    /// The port can't send the packet that was just reported.
    #[cold]
    pub(crate) fn unsendable(&mut self) {
        self.change_newest(Entry::as_unsendable);
    }

    /// The packet that was just sent had been sent before.
    #[cold]
    pub(crate) fn retransmitted(&mut self) {
        self.change_newest(Entry::as_retransmitted);
    }

    /// The syndrome of the packet that was just reported.
    #[cold]
    pub(crate) fn syndrome(&mut self, syndrome: Syndrome) {
        self.change_newest(|packet| packet.with_syndrome(syndrome));
    }

    /// The packet that was just reported is in the middle of a message.
    #[inline]
    pub(crate) fn middle(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.merge_middle();
        }
    }
}

/// Timers, states and failures.
impl Observer<'_> {
    #[cold]
    pub(crate) fn timed_out(&mut self, psn: Psn, retries_left: u8) {
        self.record(|| Entry::timed_out(psn, retries_left));
    }

    #[cold]
    pub(crate) fn response_late(&mut self, psn: Psn) {
        self.record(|| Entry::response_late(psn));
    }

    #[cold]
    pub(crate) fn rnr_timer_ended(&mut self) {
        self.record(Entry::rnr_timer_ended);
    }

    /// A CNP has reduced the rate to this, in bits a second.
    #[cold]
    pub(crate) fn congestion(&mut self, rate: f64) {
        self.record(|| Entry::slowed_down(rate));
    }

    #[cold]
    pub(crate) fn state(&mut self, from: QpState, to: QpState) {
        self.record(|| Entry::state_changed(from, to));
    }

    #[cold]
    pub(crate) fn modify_refused(&mut self, from: QpState, to: QpState) {
        self.record(|| Entry::modify_refused(from, to));
    }

    /// Names a fault. If the QP fails now, this is why.
    #[cold]
    pub(crate) fn failed(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// The fault named last.
    pub(crate) fn take_cause(&mut self) -> Option<Cause> {
        self.cause.take()
    }

    /// The QP has failed.
    #[cold]
    pub(crate) fn qp_failed(&mut self, failure: Failure) {
        self.observed.failures.note(intercept::correct(failure));
    }

    #[inline(always)]
    fn record(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(self.now, entry());
        }
    }

    /// Records one of several requests of a kind.
    #[inline]
    fn record_another(&mut self, request: impl FnOnce() -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record_another(self.now, request());
        }
    }

    fn change_newest(&mut self, change: impl FnOnce(Entry) -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.change_newest(change);
        }
    }
}
