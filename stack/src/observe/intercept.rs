//! Completions that somebody intercepts on their way to their CQs, to inject faults.

use super::{Observed, Observer};
use crate::cause::{Cause, Failure, InjectedFailure};
use crate::cq::CompletionQueue;
use crate::queue::EntryGuard;
use crate::time::Instant;
use crate::wr::{Completion, WcOpcode, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

/// Takes completions on their way to their CQs. See
/// [`Nic::intercept_completions`](crate::Nic::intercept_completions).
pub trait Interceptor: Send + core::fmt::Debug {
    /// Decides about a completion, which may be one that reports an error.
    fn intercept(&mut self, now: Instant, delivery: Delivery) -> Intercepted;

    /// When the next completion that it keeps is due.
    fn next_timeout(&self) -> Option<Instant>;

    /// Takes the first completion that is due at `now`.
    fn take_due(&mut self, now: Instant) -> Option<Delivery>;

    /// The QP is reset or destroyed: drops its completions.
    fn forget(&mut self, qpn: Qpn);
}

/// A completion on its way to its CQ. While this value lives, the request occupies its place in the
/// work queue.
#[derive(Debug)]
pub struct Delivery {
    /// The completion.
    pub completion: Completion,
    pub(crate) cq: Arc<CompletionQueue>,
    pub(crate) solicited: bool,
    pub(crate) entry: Option<EntryGuard>,
}

/// The fate of an intercepted completion.
#[derive(Debug)]
pub enum Intercepted {
    /// It is delivered now.
    Deliver(Delivery),
    /// The interceptor keeps it.
    Keep,
    /// It reports this status, and the QP fails. It is delivered now, unless the interceptor keeps
    /// it.
    Fail(WcStatus, u64, Option<Delivery>),
    /// The CQ overruns, and the QP fails.
    Overrun(Delivery),
}

impl Delivery {
    /// Whether a receive completes.
    pub fn is_receive(&self) -> bool {
        matches!(
            self.completion.opcode,
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm
        )
    }
}

impl Observed {
    /// Lets `interceptor` decide about each completion from now on.
    pub(crate) fn intercept(&mut self, interceptor: Box<dyn Interceptor>) {
        self.interceptor = Some(interceptor);
    }

    /// Whether completions are intercepted.
    #[inline]
    pub(crate) fn intercepts(&self) -> bool {
        self.interceptor.is_some()
    }

    /// When the next completion that is kept is due.
    pub(crate) fn next_late(&self) -> Option<Instant> {
        self.interceptor.as_ref()?.next_timeout()
    }

    /// Takes the first kept completion that is due.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<Delivery> {
        self.interceptor.as_mut()?.take_due(now)
    }
}

impl Observer<'_> {
    /// Whether completions are intercepted.
    #[inline(always)]
    pub(crate) fn intercepts(&self) -> bool {
        self.observed.intercepts()
    }

    /// Decides what becomes of a completion, and names the cause if it fails the QP.
    #[cold]
    pub(crate) fn intercept(&mut self, delivery: Delivery) -> Intercepted {
        let Some(interceptor) = &mut self.observed.interceptor else {
            return Intercepted::Deliver(delivery);
        };
        let intercepted = interceptor.intercept(self.now, delivery);
        match &intercepted {
            Intercepted::Deliver(_) | Intercepted::Keep => {}
            Intercepted::Fail(status, wr_id, _) => {
                let (status, wr_id) = (*status, *wr_id);
                self.failed(Cause::Injected(InjectedFailure::Status { status, wr_id }));
            }
            Intercepted::Overrun(delivery) => {
                let overrun = InjectedFailure::Overrun(delivery.cq.id());
                self.failed(Cause::Injected(overrun));
            }
        }
        intercepted
    }

    /// Drops the completions of a QP that are kept.
    pub(crate) fn forget_completions(&mut self, qpn: Qpn) {
        if let Some(interceptor) = &mut self.observed.interceptor {
            interceptor.forget(qpn);
        }
    }
}

/// A failure that was injected has a status of its own, and is the fault of no request.
pub(super) fn correct(failure: Failure) -> Failure {
    match failure.cause {
        Cause::Injected(InjectedFailure::Status { status, .. }) => Failure {
            status: Some(status),
            request: None,
            ..failure
        },
        _ => failure,
    }
}
