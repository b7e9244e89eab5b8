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
pub(super) enum Event {
    /// A packet arrives at the far end of a link.
    Arrive(EgressId, PacketId),
    /// A packet to a multicast group arrives at a member on the host that sent it.
    Loop(HostId, PacketId),
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
pub(super) struct Position {
    pub(super) at: Instant,
    number: u64,
}

/// Events in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Entry>,
    /// For each link, the packets in flight that arrive in the order in which they were sent.
    arrivals: Vec<VecDeque<(Position, PacketId)>>,
    /// The number of packets behind the first of their link. The heap has an entry for the first.
    behind_first: usize,
    /// The position of the last event handled.
    last_handled: Position,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    position: Position,
    item: HeapItem,
}

#[derive(Clone, Copy, Debug)]
enum HeapItem {
    /// The first packet of a link's queue arrives.
    FirstOf(EgressId),
    Other(Event),
}

impl Events {
    /// An empty queue for `links` links.
    pub(super) fn new(links: usize) -> Self {
        Self {
            arrivals: vec![VecDeque::new(); links],
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, at: Instant, event: Event) {
        let position = self.reserve(at);
        self.push_at(position, event);
    }

    /// The position that an event would get if it were queued now.
    pub(super) fn reserve(&mut self, at: Instant) -> Position {
        self.count += 1;
        Position {
            at,
            number: self.count,
        }
    }

    /// Queues an event at a reserved position.
    pub(super) fn push_at(&mut self, position: Position, event: Event) {
        let item = HeapItem::Other(event);
        self.heap.push(Entry { position, item });
    }

    /// Queues the arrival of a packet at the far end of `link`.
    pub(super) fn push_arrival(&mut self, at: Instant, link: EgressId, packet: PacketId) {
        let position = self.reserve(at);
        let arrivals = &mut self.arrivals[link.0];
        match arrivals.back() {
            None => {
                let item = HeapItem::FirstOf(link);
                self.heap.push(Entry { position, item });
                arrivals.push_back((position, packet));
            }
            Some((last, _)) if *last < position => {
                self.behind_first += 1;
                arrivals.push_back((position, packet));
            }
            // The packet overtakes a delayed one.
            Some(_) => self.push_at(position, Event::Arrive(link, packet)),
        }
    }

    /// Whether the event at this position has not been handled yet.
    pub(super) fn is_pending(&self, position: Position) -> bool {
        self.last_handled < position
    }

    /// The next event, if it is not after `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let mut first = self.heap.peek_mut()?;
        if first.position.at > until {
            return None;
        }
        self.last_handled = first.position;
        let event = match first.item {
            HeapItem::Other(event) => {
                PeekMut::pop(first);
                event
            }
            HeapItem::FirstOf(link) => {
                let arrivals = &mut self.arrivals[link.0];
                let (_, packet) = arrivals.pop_front()?;
                match arrivals.front() {
                    // The next packet replaces the top of the heap and sinks from there.
                    Some((position, _)) => {
                        self.behind_first -= 1;
                        first.position = *position;
                    }
                    None => drop(PeekMut::pop(first)),
                }
                Event::Arrive(link, packet)
            }
        };
        Some((self.last_handled.at, event))
    }

    /// The time of the next event.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.position.at)
    }

    /// All that was to happen up to `now` has happened.
    pub(super) fn advance(&mut self, now: Instant) {
        let position = Position {
            at: now,
            number: self.count,
        };
        self.last_handled = self.last_handled.max(position);
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.behind_first
    }
}

/// The order is reversed, because the heap has the greatest element on top.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.position.cmp(&self.position)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests;
