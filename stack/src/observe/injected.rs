//! Fault injection: completions that report an error, that come late, or that never come.
//!
//! A [`CompletionFaults`] decides about each completion of a request that succeeded. The decision
//! concerns only what the application sees: the message has been transferred.

use super::{Observed, Observer};
use crate::cause::{Cause, Failure, InjectedFailure};
use crate::cq::CompletionQueue;
use crate::queue::EntryGuard;
use crate::time::{Duration, Instant};
use crate::wr::{Completion, WcOpcode, WcStatus};
use roce_wire::Qpn;
use std::collections::VecDeque;
use std::sync::Arc;

/// Decides what becomes of completions. See [`Nic::inject_completion_faults`](crate::Nic::inject_completion_faults).
pub trait CompletionFaults: Send + core::fmt::Debug {
    /// Decides about a completion that reports success.
    fn judge(&mut self, completion: &Completion) -> CompletionFate;
}

/// The fate of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionFate {
    /// It is delivered.
    Deliver,
    /// It reports this status instead of success, and the QP fails as it does with that status.
    Fail(WcStatus),
    /// It is delivered after this time. The later completions of the same work queue wait behind
    /// it, because completions of one work queue keep their order.
    Delay(Duration),
    /// It is never delivered. As without any completion, its request occupies its work queue until
    /// the QP is reset or destroyed.
    Lose,
    /// The CQ overruns, and the QP fails.
    Overrun,
}

/// What a completion reports, or would have reported.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) cq: Arc<CompletionQueue>,
    pub(crate) completion: Completion,
    pub(crate) solicited: bool,
    pub(crate) entry: Option<EntryGuard>,
}

impl Delivery {
    /// Whether a receive completes.
    pub(crate) fn is_receive(&self) -> bool {
        is_receive(&self.completion)
    }
}

fn is_receive(completion: &Completion) -> bool {
    matches!(
        completion.opcode,
        WcOpcode::Recv | WcOpcode::RecvRdmaWithImm
    )
}

/// What becomes of an intercepted completion.
#[derive(Debug)]
pub(crate) enum Intercepted {
    /// It is delivered now.
    Deliver(Delivery),
    /// It is kept.
    Keep,
    /// It reports a failure, and the QP fails. It is delivered now, unless others of its work queue
    /// are late.
    Fail(Option<Delivery>),
    /// The CQ overruns.
    Overrun(Arc<CompletionQueue>),
}

impl Observed {
    /// Lets `faults` decide about each completion from now on.
    pub(crate) fn inject(&mut self, faults: Box<dyn CompletionFaults>) {
        self.injected = Some(Box::new(InjectedFaults::new(faults)));
    }

    /// Whether completions are intercepted.
    #[inline]
    pub(crate) fn intercepts(&self) -> bool {
        self.injected.is_some()
    }

    /// When the next late completion is delivered.
    pub(crate) fn next_late(&self) -> Option<Instant> {
        self.injected.as_ref()?.next()
    }

    /// Takes the first late completion that is due.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<Delivery> {
        self.injected.as_mut()?.take_due(now)
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
    pub(crate) fn intercept(&mut self, mut delivery: Delivery) -> Intercepted {
        let Some(injected) = self.observed.injected.as_deref_mut() else {
            return Intercepted::Deliver(delivery);
        };
        let failure = match injected.judge(&delivery.completion) {
            CompletionFate::Deliver => None,
            CompletionFate::Delay(time) => {
                injected.hold(self.now + time, delivery);
                return Intercepted::Keep;
            }
            CompletionFate::Lose => {
                injected.lost.push(delivery);
                return Intercepted::Keep;
            }
            CompletionFate::Fail(status) => {
                delivery.completion.status = status;
                let wr_id = delivery.completion.wr_id;
                Some(InjectedFailure::Status { status, wr_id })
            }
            CompletionFate::Overrun => {
                let overrun = InjectedFailure::Overrun(delivery.cq.id());
                self.failed(Cause::Injected(overrun));
                return Intercepted::Overrun(delivery.cq);
            }
        };
        let now = match injected.last_of_queue(&delivery.completion) {
            Some(at) => {
                injected.hold(at, delivery);
                None
            }
            None => Some(delivery),
        };
        match (failure, now) {
            (Some(failure), now) => {
                self.failed(Cause::Injected(failure));
                Intercepted::Fail(now)
            }
            (None, Some(delivery)) => Intercepted::Deliver(delivery),
            (None, None) => Intercepted::Keep,
        }
    }

    /// Drops the completions of a QP that are kept.
    pub(crate) fn forget_completions(&mut self, qpn: Qpn) {
        if let Some(injected) = &mut self.observed.injected {
            injected.forget(qpn);
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

/// The faults of a NIC, and the completions that they hold back.
#[derive(Debug)]
pub(super) struct InjectedFaults {
    faults: Box<dyn CompletionFaults>,
    /// The completions that are late, those of each work queue in order.
    late: VecDeque<(Instant, Delivery)>,
    /// The completions that are never delivered. They are as many as the work queues have entries.
    lost: Vec<Delivery>,
}

impl InjectedFaults {
    fn new(faults: Box<dyn CompletionFaults>) -> Self {
        Self {
            faults,
            late: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Decides about a completion.
    fn judge(&mut self, completion: &Completion) -> CompletionFate {
        match completion.status {
            WcStatus::Success => self.faults.judge(completion),
            _ => CompletionFate::Deliver,
        }
    }

    /// Keeps a completion until `at`, or until those before it have been delivered.
    fn hold(&mut self, at: Instant, delivery: Delivery) {
        let behind = self.last_of_queue(&delivery.completion);
        let at = behind.map_or(at, |before| before.max(at));
        self.late.push_back((at, delivery));
    }

    /// When the last late completion of the same work queue is delivered.
    fn last_of_queue(&self, completion: &Completion) -> Option<Instant> {
        let same = |(_, late): &&(Instant, Delivery)| {
            late.completion.qpn == completion.qpn
                && is_receive(&late.completion) == is_receive(completion)
        };
        self.late.iter().rev().find(same).map(|(at, _)| *at)
    }

    /// When the next late completion is delivered.
    fn next(&self) -> Option<Instant> {
        self.late.iter().map(|(at, _)| *at).min()
    }

    /// Takes the first late completion that is due.
    fn take_due(&mut self, now: Instant) -> Option<Delivery> {
        let due = self.late.iter().position(|(at, _)| *at <= now)?;
        self.late.remove(due).map(|(_, delivery)| delivery)
    }

    /// Drops the completions of a QP.
    fn forget(&mut self, qpn: Qpn) {
        self.late.retain(|(_, late)| late.completion.qpn != qpn);
        self.lost.retain(|lost| lost.completion.qpn != qpn);
    }
}
