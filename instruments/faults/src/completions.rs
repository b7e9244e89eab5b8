//! Injected faults: completions that report an error, that come late, or that never come.
//!
//! A [`CompletionFaults`] decides about each completion of a request that succeeded. The decision
//! concerns only what the application sees: the message has been transferred.

use core::fmt;
use roce_stack::{Completion, Delivery, Duration, Instant, Intercepted, Interceptor, WcStatus};
use roce_wire::Qpn;
use std::collections::VecDeque;

/// Decides what becomes of completions. See [`FaultyCompletions`].
pub trait CompletionFaults: Send + fmt::Debug {
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

/// Injects faults into the completions of a NIC, for
/// [`Nic::intercept_completions`](roce_stack::Nic::intercept_completions).
#[derive(Debug)]
pub struct FaultyCompletions<F> {
    faults: F,
    /// The completions that are late, those of each work queue in order.
    late: VecDeque<(Instant, Delivery)>,
    /// The completions that are never delivered. They are as many as the work queues have entries.
    lost: Vec<Delivery>,
}

impl<F: CompletionFaults> FaultyCompletions<F> {
    /// Lets `faults` decide about each completion.
    pub fn new(faults: F) -> Self {
        Self {
            faults,
            late: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    fn judge(&mut self, completion: &Completion) -> CompletionFate {
        match completion.status {
            WcStatus::Success => self.faults.judge(completion),
            _ => CompletionFate::Deliver,
        }
    }

    /// Keeps a completion until `at`, or until those before it have been delivered.
    fn hold(&mut self, at: Instant, delivery: Delivery) {
        let behind = self.last_of_queue(&delivery);
        let at = behind.map_or(at, |before| before.max(at));
        self.late.push_back((at, delivery));
    }

    /// When the last late completion of the same work queue is delivered.
    fn last_of_queue(&self, delivery: &Delivery) -> Option<Instant> {
        let same = |(_, late): &&(Instant, Delivery)| {
            late.completion.qpn == delivery.completion.qpn
                && late.is_receive() == delivery.is_receive()
        };
        self.late.iter().rev().find(same).map(|(at, _)| *at)
    }

    /// Keeps the completion if it has to wait for others of its work queue. Returns it otherwise.
    fn behind_others(&mut self, delivery: Delivery) -> Option<Delivery> {
        match self.last_of_queue(&delivery) {
            Some(at) => {
                self.hold(at, delivery);
                None
            }
            None => Some(delivery),
        }
    }
}

impl<F: CompletionFaults> Interceptor for FaultyCompletions<F> {
    fn intercept(&mut self, now: Instant, mut delivery: Delivery) -> Intercepted {
        match self.judge(&delivery.completion) {
            CompletionFate::Deliver => match self.behind_others(delivery) {
                Some(delivery) => Intercepted::Deliver(delivery),
                None => Intercepted::Keep,
            },
            CompletionFate::Delay(time) => {
                self.hold(now + time, delivery);
                Intercepted::Keep
            }
            CompletionFate::Lose => {
                self.lost.push(delivery);
                Intercepted::Keep
            }
            CompletionFate::Fail(status) => {
                delivery.completion.status = status;
                let wr_id = delivery.completion.wr_id;
                Intercepted::Fail(status, wr_id, self.behind_others(delivery))
            }
            CompletionFate::Overrun => Intercepted::Overrun(delivery),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.late.iter().map(|(at, _)| *at).min()
    }

    fn take_due(&mut self, now: Instant) -> Option<Delivery> {
        let due = self.late.iter().position(|(at, _)| *at <= now)?;
        self.late.remove(due).map(|(_, delivery)| delivery)
    }

    fn forget(&mut self, qpn: Qpn) {
        self.late.retain(|(_, late)| late.completion.qpn != qpn);
        self.lost.retain(|lost| lost.completion.qpn != qpn);
    }
}
