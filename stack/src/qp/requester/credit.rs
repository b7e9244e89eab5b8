//! End-to-end flow control: not sending what the peer has no receive for (IBTA 1.7,
//! 9.7.7.2).

use super::Requester;
use crate::seq::Seq;
use roce_wire::{Credits, Packet, Syndrome};

/// How many receives, counted from the start of the connection, our requests may
/// consume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    /// `None` while the peer does not count, or has not said anything yet.
    limit: Option<u64>,
    /// The first PSN of the message that was begun without credit, if the one begun
    /// last was.
    probe: Option<Seq>,
}

impl Credit {
    /// Whether a request may be sent after which `receives` will have been consumed.
    pub(super) fn admits(&self, consumes: bool, receives: u64) -> bool {
        // rule: 9.7.7.2-limit
        !consumes || self.limit.is_none_or(|limit| receives <= limit)
    }

    /// A message that begins at `first` was begun; as a probe if there was no credit.
    pub(super) fn note_begin(&mut self, first: Seq, probe: bool) {
        self.probe = probe.then_some(first);
    }

    /// Whether the message that begins at `first` is a probe without answer, given
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
    /// The peer has so many receives left beyond what it has acknowledged.
    pub(super) fn update_credit(&mut self, credits: Credits) {
        // rule: 9.7.7.2-no-count
        let Some(count) = credits.count() else {
            self.credit.limit = None;
            return;
        };
        let consumed = match self.sq.front() {
            None => self.receives,
            // A message that is partly acknowledged has its receive already.
            // rule: 9.7.7.2-under-way
            Some(front) if self.una > front.first => front.receives,
            Some(front) => front.receives - u64::from(front.request.op.consumes_receive()),
        };
        self.credit.limit = Some(consumed + u64::from(count));
        if count > 0 {
            // Who was not ready says that it is now.
            // rule: 9.7.7.2-no-deadlock
            self.retry.receiver_is_ready();
        }
    }
}
