//! How a QP fails: the completions that it flushes, and the events that it raises (IBTA 1.7,
//! 10.3.1.5 and 10.3.1.6).

use super::{Cx, Qp};
use crate::cause::{Cause, Failure};
use crate::event::Event;
use crate::kind::QpState;
use crate::observe::Delivery;
use crate::wr::{Completion, WcOpcode, WcStatus};
use roce_wire::Qpn;

/// Why a QP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpFailure {
    /// The oldest send request fails with this status.
    Send(WcStatus),
    /// A request of the peer failed; the receive that it consumed has completed with the reason.
    Receive,
    /// A request of the peer was invalid and consumed no receive.
    InvalidRequest,
    /// A request of the peer that consumed no receive was denied access.
    AccessViolation,
    /// Memory of a FLUSH of the peer could not be made durable.
    NotDurable,
    /// A completion did not fit in its CQ.
    CqOverrun,
}

impl QpFailure {
    /// The affiliated asynchronous error that reports the fault; `None` if a completion reports it
    /// (IBTA 1.7, 11.6.3.2).
    fn event(self, qpn: Qpn) -> Option<Event> {
        match self {
            // rule: 11.6.3-not-twice
            Self::Send(_) | Self::Receive => None,
            // rule: 11.6.3-qp-fatal
            Self::CqOverrun | Self::NotDurable => Some(Event::QpFatal(qpn)),
            // rule: 11.6.3-invalid-request
            Self::InvalidRequest => Some(Event::QpRequestError(qpn)),
            // rule: 11.6.3-access-violation
            Self::AccessViolation => Some(Event::QpAccessError(qpn)),
        }
    }
}

impl Qp {
    // rule: 9.9.2-error-state
    /// Moves the QP to the error state. The failed request completes with its status, and all later
    /// requests complete as flushed, in order (IBTA 1.7, 10.3.1.5). An error in the send queue of
    /// an unreliable service does not affect receiving (IBTA 1.7, 10.3.1.6).
    pub(super) fn fail(&mut self, cx: &mut Cx<'_>, failure: Option<QpFailure>) {
        let status = match failure {
            Some(QpFailure::Send(status)) => status,
            _ => WcStatus::WorkRequestFlushed,
        };
        if matches!(failure, Some(QpFailure::Send(_))) && self.core.kind.survives_send_errors() {
            // rule: 9.8.2-sqe, 9.8.3-sqe
            self.report(cx, failure);
            self.enter(cx, QpState::Sqe);
            return match self.flush_sends(cx, status) {
                Ok(()) => {}
                // A CQ overrun fails the QP, even if its service survives send errors.
                Err(overrun) => self.fail(cx, Some(overrun)),
            };
        }
        self.report(cx, failure);
        let from = self.core.state;
        self.enter(cx, QpState::Err);
        self.release(cx);
        // rule: 10.3.1-err-flushes
        let sends = self.flush_sends(cx, status);
        let receives = self.flush_receives(cx);
        self.service.abandon();
        // rule: 10.3.1-err-event
        if let Some(failure) = failure {
            let event = failure.event(self.core.qpn);
            // The completion that would report the fault may itself have been lost in an overrun.
            let lost = sends
                .and(receives)
                .err()
                .and_then(|overrun| overrun.event(self.core.qpn));
            cx.nic.events.extend(event.or(lost));
        }
        if from != QpState::Err && self.srq().is_some() {
            // rule: 10.2.9-srq-last-wqe
            cx.nic
                .events
                .push_back(Event::LastWqeReached(self.core.qpn));
        }
    }

    /// Reports why the QP fails.
    #[cold]
    fn report(&self, cx: &mut Cx<'_>, failure: Option<QpFailure>) {
        let named = cx.observe.take_cause();
        let (cause, request) = match failure {
            None => (Some(Cause::Application), None),
            Some(QpFailure::Send(status)) => {
                let cause = named.or_else(|| self.service.cause(cx, &self.core, status));
                (cause, self.service.oldest_send())
            }
            Some(_) => (named, None),
        };
        let status = match (failure, cause) {
            (Some(QpFailure::Send(status)), _) => Some(status),
            (Some(QpFailure::Receive), Some(cause)) => cause.status_of_receive(),
            _ => None,
        };
        if let Some(cause) = cause {
            cx.observe.qp_failed(Failure {
                qpn: self.core.qpn,
                at: cx.now,
                status,
                queued: self.queued(),
                request,
                cause,
            });
        }
    }

    /// Delivers a completion that was late.
    pub(crate) fn deliver_late(&mut self, cx: &mut Cx<'_>, delivery: Delivery) {
        if let Err(overrun) = cx.deliver_now(&self.core, delivery) {
            self.fail(cx, Some(overrun));
        }
    }

    /// Completes the oldest send with `status` and all later ones as flushed.
    fn flush_sends(&mut self, cx: &mut Cx<'_>, mut status: WcStatus) -> Result<(), QpFailure> {
        let flushed = until_none_is_left(|| {
            let completed = self.service.complete_send(cx, &self.core, status);
            // rule: 10.3.1-err-once
            status = WcStatus::WorkRequestFlushed;
            completed
        });
        self.service.stop_sending();
        flushed
    }

    /// Completes all receives as flushed.
    fn flush_receives(&mut self, cx: &mut Cx<'_>) -> Result<(), QpFailure> {
        until_none_is_left(|| self.service.flush_receive(cx, &self.core))
    }

    // rule: 10.3.1-err-posting
    pub(super) fn flush_one(
        &mut self,
        cx: &mut Cx<'_>,
        wr_id: u64,
        opcode: WcOpcode,
    ) -> Result<(), QpFailure> {
        let completion = Completion {
            wr_id,
            status: WcStatus::WorkRequestFlushed,
            opcode,
            byte_len: 0,
            qpn: self.core.qpn,
            imm: None,
            invalidated_rkey: None,
            source: None,
        };
        let (cq, entry) = match opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => {
                (&self.core.recv_cq, self.service.receives().entry_guard())
            }
            _ => (&self.core.send_cq, Some(self.service.send_guard())),
        };
        cx.complete(&self.core, cq, completion, false, entry)
    }
}

/// Completes requests until none is left, also those whose completions find no room in the CQ: completion
/// counters count them.
///
/// # Errors
/// The first overrun.
fn until_none_is_left(
    mut complete: impl FnMut() -> Result<bool, QpFailure>,
) -> Result<(), QpFailure> {
    let mut flushed = Ok(());
    loop {
        match complete() {
            Ok(true) => {}
            Ok(false) => return flushed,
            Err(overrun) => flushed = flushed.and(Err(overrun)),
        }
    }
}
