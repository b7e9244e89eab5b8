//! The event queue, ordered by time and then by insertion.
//!
//! Most events are arrivals of packets, and those on one link arrive in the order in which they
//! were sent, unless a fault delays one. So each link has a queue of its own, and the heap holds
//! only its first packet: the heap stays as small as the fabric, however many packets are in
//! flight.

use super::{EgressId, HostId, PacketId};
use core::cmp::Ordering;
use roce_stack::Instant;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A packet arrives at the far end of a link.
    Arrive(EgressId, PacketId),
    /// A link has sent a packet and may send the next.
    Sent(EgressId),
    /// A host has work: a timer, or waiting packets.
    Wake(HostId),
    /// A pause frame arrives: the sender on the link stops or resumes.
    Pause(EgressId, bool),
    /// A call that the caller requested.
    Call(u64),
}

/// A position in the order of events: a time, and a number to order events at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) at: Instant,
    number: u64,
}

/// Events in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Entry>,
    /// For each link, the packets that arrive in the order in which they were sent.
    ways: Vec<VecDeque<(Turn, PacketId)>>,
    /// The number of packets behind the first of their link, which is in the heap.
    behind: usize,
    /// The position of the last event handled.
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
    /// An empty queue for `links` links.
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

    /// The position that an event would get if it were queued now.
    pub(super) fn reserve(&mut self, at: Instant) -> Turn {
        self.count += 1;
        Turn {
            at,
            number: self.count,
        }
    }

    /// Queues an event at a reserved position.
    pub(super) fn push_at(&mut self, turn: Turn, what: What) {
        let next = Next::Other(what);
        self.heap.push(Entry { turn, next });
    }

    /// Queues the arrival of a packet at the far end of `link`.
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
            // It overtakes a delayed packet.
            Some(_) => self.push_at(turn, What::Arrive(link, packet)),
        }
    }

    /// Whether the event at this position is still to come.
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
                    // It replaces the top of the heap and sinks from there.
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

/// The order is reversed, because the heap has the greatest element on top.
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
