//! What happens when: a queue ordered by time, and by what was queued first.

use super::{EgressId, HostId, PacketId};
use core::cmp::Reverse;
use roce_stack::Instant;
use std::collections::BinaryHeap;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A packet arrives at the far end of a link.
    Arrive(EgressId, PacketId),
    /// A link has sent a packet and may send the next.
    Sent(EgressId),
    /// A host has something to do: a timer, or packets that wait.
    Wake(HostId),
    /// A pause frame arrives: the sender of the link stops, or goes on.
    Pause(EgressId, bool),
    /// What the caller asked to be told.
    Call(u64),
}

/// Events in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Instant, u64, What)>>,
    count: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: Instant, what: What) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, what)));
    }

    /// The next event, if it is not after `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, What)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
