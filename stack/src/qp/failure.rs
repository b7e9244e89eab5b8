//! How a QP fails: what completes with which status, and who is told (IBTA 1.7, 10.3.1.5
//! and 10.3.1.6).

use super::{Cx, Qp, QpState};
use crate::event::Event;
use crate::wr::{Completion, WcOpcode, WcStatus};
use roce_wire::Qpn;

/// Why a QP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The oldest send request fails with this status.
    Send(WcStatus),
    /// The responder failed at a request, after telling the peer and the receive
    /// queue what there was to tell.
    Responder,
    /// The same: the request was invalid.
    InvalidRequest,
    /// The same: the peer was denied access.
    AccessViolation,
    /// A completion found no room.
    CqOverrun,
}

impl Fault {
    /// What the QP's owner hears of it.
    fn event(self, qpn: Qpn) -> Event {
        match self {
            // rule: 10.3.1-err-event
            Self::Send(status) => Event::QpFatal(qpn, QpFatalCause::Send(status)),
            // rule: 11.6.3-qp-fatal
            Self::Responder => Event::QpFatal(qpn, QpFatalCause::Responder),
            Self::CqOverrun => Event::QpFatal(qpn, QpFatalCause::CqOverrun),
            // rule: 11.6.3-invalid-request
            Self::InvalidRequest => Event::QpRequestError(qpn),
            // rule: 11.6.3-access-violation
            Self::AccessViolation => Event::QpAccessError(qpn),
        }
    }
}

/// Why a QP failed, for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpFatalCause {
    /// A send request failed with this status.
    Send(WcStatus),
    /// A request of the peer failed for a reason that lies here: the memory of the
    /// receive that it took.
    Responder,
    /// A completion queue overran.
    CqOverrun,
}

impl Qp {
    // rule: 9.9.2-error-state
    /// Moves the QP to the error state: the request at fault completes with its
    /// status, everything behind it as flushed, in order (IBTA 1.7, 10.3.1.5). An
    /// error in the send queue of an unreliable service leaves receiving as it is
    /// (IBTA 1.7, 10.3.1.6).
    pub(super) fn fail(&mut self, cx: &mut Cx<'_>, fault: Option<Fault>) {
        let status = match fault {
            Some(Fault::Send(status)) => status,
            _ => WcStatus::WorkRequestFlushed,
        };
        if matches!(fault, Some(Fault::Send(_))) && self.core.kind.survives_send_errors() {
            // rule: 9.8.2-sqe, 9.8.3-sqe
            self.core.state = QpState::Sqe;
            return match self.flush_sends(cx, status) {
                Ok(()) => {}
                // No QP survives that.
                Err(overrun) => self.fail(cx, Some(overrun)),
            };
        }
        let from = core::mem::replace(&mut self.core.state, QpState::Err);
        self.release(cx);
        // A full CQ takes no more completions; it is known to have overrun by then.
        let _ = self.flush_sends(cx, status);
        // rule: 10.3.1-err-flushes
        while self
            .service
            .flush_receive(cx, &self.core)
            .is_ok_and(|any| any)
        {}
        self.service.abandon();
        cx.events
            .extend(fault.map(|fault| fault.event(self.core.qpn)));
        if from != QpState::Err && self.srq().is_some() {
            // rule: 10.2.9-srq-last-wqe
            cx.events.push_back(Event::LastWqeReached(self.core.qpn));
        }
    }

    /// Completes the oldest send with `status` and those behind it as flushed, as many as
    /// the CQ takes.
    fn flush_sends(&mut self, cx: &mut Cx<'_>, mut status: WcStatus) -> Result<(), Fault> {
        let flushed = loop {
            match self.service.complete_send(cx, &self.core, status) {
                // rule: 10.3.1-err-once
                Ok(true) => status = WcStatus::WorkRequestFlushed,
                Ok(false) => break Ok(()),
                Err(overrun) => break Err(overrun),
            }
        };
        self.service.stop_sending();
        flushed
    }

    // rule: 10.3.1-err-posting
    pub(super) fn flush_one(
        &mut self,
        cx: &mut Cx<'_>,
        wr_id: u64,
        opcode: WcOpcode,
    ) -> Result<(), Fault> {
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
        let (sent, received) = self.service.rooms();
        let (cq, room) = match opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => (&self.core.recv_cq, received),
            _ => (&self.core.send_cq, Some(sent)),
        };
        cx.complete(cq, completion, false, room)
    }
}
