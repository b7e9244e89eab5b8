//! Fault injection: completions that report an error, that come late, or that never come.
//!
//! A [`CompletionFaults`] decides about each completion of a request that succeeded. The decision
//! concerns only what the application sees: the message has been transferred.

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

fn is_receive(completion: &Completion) -> bool {
    matches!(
        completion.opcode,
        WcOpcode::Recv | WcOpcode::RecvRdmaWithImm
    )
}

/// The faults of a NIC, and the completions that they hold back.
#[derive(Debug)]
pub(crate) struct InjectedFaults {
    faults: Box<dyn CompletionFaults>,
    /// The completions that are late, those of each work queue in order.
    late: VecDeque<(Instant, Delivery)>,
    /// The completions that are never delivered. They are as many as the work queues have entries.
    lost: Vec<Delivery>,
}

impl InjectedFaults {
    pub(crate) fn new(faults: Box<dyn CompletionFaults>) -> Self {
        Self {
            faults,
            late: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Decides about a completion.
    pub(crate) fn judge(&mut self, completion: &Completion) -> CompletionFate {
        match completion.status {
            WcStatus::Success => self.faults.judge(completion),
            _ => CompletionFate::Deliver,
        }
    }

    /// Keeps a completion until `at`, or until those before it have been delivered.
    pub(crate) fn hold(&mut self, at: Instant, delivery: Delivery) {
        let behind = self.last_of_queue(&delivery.completion);
        let at = behind.map_or(at, |before| before.max(at));
        self.late.push_back((at, delivery));
    }

    /// Keeps a completion forever.
    pub(crate) fn lose(&mut self, delivery: Delivery) {
        self.lost.push(delivery);
    }

    /// When the last late completion of the same work queue is delivered.
    pub(crate) fn last_of_queue(&self, completion: &Completion) -> Option<Instant> {
        let same = |(_, late): &&(Instant, Delivery)| {
            late.completion.qpn == completion.qpn
                && is_receive(&late.completion) == is_receive(completion)
        };
        self.late.iter().rev().find(same).map(|(at, _)| *at)
    }

    /// When the next late completion is delivered.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.late.iter().map(|(at, _)| *at).min()
    }

    /// Takes the first late completion that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Delivery> {
        let due = self.late.iter().position(|(at, _)| *at <= now)?;
        self.late.remove(due).map(|(_, delivery)| delivery)
    }

    /// Drops the completions of a QP.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.late.retain(|(_, late)| late.completion.qpn != qpn);
        self.lost.retain(|lost| lost.completion.qpn != qpn);
    }
}
