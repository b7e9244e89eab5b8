//! Requests that can't be executed: what the peer and the application learn (IBTA 1.7, 9.7.5.2 and
//! 9.9.3).

use super::{Arrival, Responder};
use crate::observe::Verdict;
use crate::qp::{Core, Cx, QpFailure};
use crate::wr::WcStatus;

/// Why a request was not executed. It has used up no PSN, receive or reply, except after
/// [`Denial::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// It needs a receive, and none is posted.
    NotReady,
    /// It is refused for good, and consumes no receive.
    Refused(Refusal),
    /// It is refused for good. The receive that it consumes, if one is posted, completes with this
    /// status.
    Receive(WcStatus),
    /// Its memory could not be made durable.
    NotDurable,
    /// It was executed, but the QP failed.
    Failed(QpFailure),
}

/// Why a request was refused for good. It determines the code of the NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    InvalidRequest,
    AccessError,
    OperationalError,
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<QpFailure> for Denial {
    fn from(failure: QpFailure) -> Self {
        Self::Failed(failure)
    }
}

impl Responder {
    /// Answers the request at `epsn`, which was not executed.
    #[cold]
    pub(super) fn deny(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        denial: Denial,
    ) -> Result<(), QpFailure> {
        if !matches!(denial, Denial::Failed(_)) {
            cx.observe.verdict(Verdict::Denied);
        }
        match denial {
            Denial::NotReady => {
                self.not_ready();
                Ok(())
            }
            Denial::Refused(refusal) => Err(self.refuse(refusal)),
            Denial::Receive(status) => self.fail_receive(cx, core, status),
            Denial::NotDurable => {
                self.refuse(Refusal::OperationalError);
                Err(QpFailure::NotDurable)
            }
            Denial::Failed(failure) => Err(failure),
        }
    }

    /// Queues an RNR NAK because no receive is posted; the request is expected again (9.7.5.2.8).
    // rule: 9.7.5.2.8-rnr-once
    fn not_ready(&mut self) {
        self.nak_sent = true;
        self.not_ready = true;
        self.replies.receiver_not_ready(self.epsn);
    }

    /// Refuses the request at `epsn` for good: the peer gets a NAK and the QP fails.
    // rule: 9.9.3-responder-fails
    fn refuse(&mut self, refusal: Refusal) -> QpFailure {
        self.replies.nak(self.epsn, refusal);
        match refusal {
            Refusal::InvalidRequest => QpFailure::InvalidRequest,
            Refusal::AccessError => QpFailure::AccessViolation,
            Refusal::OperationalError => QpFailure::Receive,
        }
    }

    /// Refuses the request at `epsn` for good. The receive that it consumes completes with
    /// `status` (IBTA 1.7, 11.6.2).
    fn fail_receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<(), QpFailure> {
        let refusal = match status {
            // rule: 9.9.3-too-small
            WcStatus::LocalLengthError => Some(Refusal::InvalidRequest),
            WcStatus::LocalAccessError => Some(Refusal::AccessError),
            // The peer gets no NAK for a key that may not be invalidated (9.9.6.3, class J). It
            // retries until its retries are used up.
            // rule: 9.4.1.1-invalidate-refused
            WcStatus::RemoteInvalidRequest => None,
            _ => Some(Refusal::OperationalError),
        };
        let failure = refusal.map_or(QpFailure::Receive, |refusal| self.refuse(refusal));
        self.rq.ensure_receive(cx);
        let reported = self.complete_receive(cx, core, status, Arrival::default())?;
        Err(if reported {
            QpFailure::Receive
        } else {
            failure
        })
    }
}
