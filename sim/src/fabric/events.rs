//! What happens when: a queue ordered by time, and by what was queued first.
//!
//! Most events are packets that arrive, and those of one link arrive in the order in
//! which they were sent, unless faults hold one back. So each link has a queue of its
//! own, and the heap holds only the first of it: it stays as small as the fabric,
//! however many packets are on their way.

use super::{EgressId, HostId, PacketId};
use core::cmp::Ordering;
use roce_stack::Instant;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A place in the order of events: a time, and a number for those of one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) at: Instant,
    number: u64,
}

/// Events in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Entry>,
    /// Of each link: the packets that arrive in the order in which they were sent.
    ways: Vec<VecDeque<(Turn, PacketId)>>,
    /// How many of them wait behind the first of their link, which is in the heap.
    behind: usize,
    /// The place of what happened last.
    reached: Turn,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    turn: Turn,
    next: Next,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// The first packet of a link's queue arrives.
    FirstOf(EgressId),
    Other(What),
}

impl Events {
    /// No events yet; so many links.
    pub(super) fn new(links: usize) -> Self {
        Self {
            ways: vec![VecDeque::new(); links],
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, at: Instant, what: What) {
        let turn = self.reserve(at);
        self.push_at(turn, what);
    }

    /// The place that an event would have if it were queued now.
    pub(super) fn reserve(&mut self, at: Instant) -> Turn {
        self.count += 1;
        Turn {
            at,
            number: self.count,
        }
    }

    /// Queues an event at a place that was reserved for it.
    pub(super) fn push_at(&mut self, turn: Turn, what: What) {
        let next = Next::Other(what);
        self.heap.push(Entry { turn, next });
    }

    /// A packet will arrive at the far end of `link`.
    pub(super) fn push_arrival(&mut self, at: Instant, link: EgressId, packet: PacketId) {
        let turn = self.reserve(at);
        let way = &mut self.ways[link.0];
        match way.back() {
            None => {
                let next = Next::FirstOf(link);
                self.heap.push(Entry { turn, next });
                way.push_back((turn, packet));
            }
            Some((last, _)) if *last < turn => {
                self.behind += 1;
                way.push_back((turn, packet));
            }
            // It overtakes one that is held back.
            Some(_) => self.push_at(turn, What::Arrive(link, packet)),
        }
    }

    /// Whether what has this place has not happened yet.
    pub(super) fn is_to_come(&self, turn: Turn) -> bool {
        self.reached < turn
    }

    /// The next event, if it is not after `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, What)> {
        let mut first = self.heap.peek_mut()?;
        if first.turn.at > until {
            return None;
        }
        self.reached = first.turn;
        let what = match first.next {
            Next::Other(what) => {
                PeekMut::pop(first);
                what
            }
            Next::FirstOf(link) => {
                let way = &mut self.ways[link.0];
                let (_, packet) = way.pop_front()?;
                match way.front() {
                    // It takes the place at the top of the heap, and sinks from there.
                    Some((turn, _)) => {
                        self.behind -= 1;
                        first.turn = *turn;
                    }
                    None => drop(PeekMut::pop(first)),
                }
                What::Arrive(link, packet)
            }
        };
        Some((self.reached.at, what))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.behind
    }
}

/// The greatest is what comes first, as heaps have the greatest on top.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn.cmp(&self.turn)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests;
