//! End-to-end flow control: a request waits until the peer has a receive for it (IBTA 1.7,
//! 9.7.7.2).

use super::Requester;
use crate::seq::Seq;
use roce_wire::{Credits, Packet, Syndrome};

/// The number of receives, counted from the start of the connection, that requests may consume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    /// `None` while the peer sends no credit count, or has not sent any credits yet.
    limit: Option<u64>,
    /// The first PSN of the newest message, if it was begun without credit.
    probe: Option<Seq>,
}

impl Credit {
    /// Whether a request may be sent that brings the number of consumed receives to `receives`.
    /// Always true if the request does not consume one (`consumes` is false).
    pub(super) fn admits(&self, consumes: bool, receives: u64) -> bool {
        // rule: 9.7.7.2-limit
        !consumes || self.limit.is_none_or(|limit| receives <= limit)
    }

    /// Notes that the first packet of the message that begins at `first` was sent; `probe` if there
    /// was no credit.
    pub(super) fn note_begin(&mut self, first: Seq, probe: bool) {
        self.probe = probe.then_some(first);
    }

    /// Whether the message that begins at `first` is a probe that is not acknowledged yet, given
    /// that everything before `una` is acknowledged.
    pub(super) fn is_probing(&self, first: Seq, una: Seq) -> bool {
        self.probe == Some(first) && una <= first
    }
}

/// The credits that a response carries.
pub(super) fn credits_of(packet: &Packet<'_>) -> Option<Credits> {
    match packet.ext.aeth?.syndrome {
        Syndrome::Ack(credits) => Some(credits),
        _ => None,
    }
}

impl Requester {
    /// Updates the limit. `credits` is the number of receives that the peer has left after the
    /// requests that it has acknowledged.
    pub(super) fn update_credit(&mut self, credits: Credits) {
        // rule: 9.7.7.2-no-count
        let Some(count) = credits.count() else {
            self.credit.limit = None;
            return;
        };
        let consumed = match self.sq.front() {
            None => self.receives,
            // A message that is partly acknowledged already has its receive.
            // rule: 9.7.7.2-under-way
            Some(front) if self.una > front.first => front.receives,
            Some(front) => front.receives - u64::from(front.request.op.consumes_receive()),
        };
        self.credit.limit = Some(consumed + u64::from(count));
        if count > 0 {
            // With credits, a peer that was not ready reports that it is ready now.
            // rule: 9.7.7.2-no-deadlock
            self.retry.receiver_is_ready();
        }
    }
}
