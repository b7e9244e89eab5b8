//! Why a request failed.

use super::Requester;
use crate::cause::{Cause, FailedRequest};
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use crate::wr::WcStatus;

impl Requester {
    /// The failure of a QP whose packet at `at` is lost again and again.
    #[cold]
    pub(super) fn always_lost(&self, cx: &mut Cx<'_>, at: Seq) -> QpFailure {
        cx.observe.failed(Cause::AlwaysLost {
            psn: at.wire(),
            retries: self.retry.retries(),
        });
        QpFailure::Send(WcStatus::RetryExceeded)
    }

    /// The oldest request.
    pub(crate) fn oldest(&self) -> Option<FailedRequest> {
        Some(self.sq.front()?.request.failed())
    }

    /// Why the oldest request fails with this status, if no code has named the cause.
    pub(crate) fn cause(&self, cx: &Cx<'_>, core: &Core, status: WcStatus) -> Option<Cause> {
        let psn = self.una.wire();
        Some(match status {
            WcStatus::LocalProtectionError => {
                let wqe = self.sq.front()?;
                wqe.request.memory_cause(cx, core, self.sq.source(0))?
            }
            WcStatus::RetryExceeded => Cause::NoAnswer {
                psn,
                retries: self.retry.retries(),
                timeout: core.config.ack_timeout(),
                ever_answered: self.una.wire() != core.config.sq_psn || self.retry.got_nak(),
            },
            WcStatus::RemoteInvalidRequest => Cause::RefusedInvalid { psn },
            WcStatus::RemoteAccessError => Cause::RefusedAccess { psn },
            WcStatus::RemoteOperationError => Cause::RefusedOperation { psn },
            _ => return None,
        })
    }
}
