//! The state that the threads of a target share.

use super::TargetOptions;
use super::protocol::Controllers;
use super::storage::Storage;
use crate::nic::Nic;
use crate::wire::{Refusal, RejectPrivate};
use parking_lot::{Condvar, Mutex};
use roce_verbs::cm::Incoming;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many failures are remembered.
const FAILURES: usize = 64;

/// The state that the threads of a target share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) nic: Nic,
    pub(super) controllers: Arc<Controllers>,
    pub(super) namespaces: Vec<Storage>,
    pub(super) options: TargetOptions,
    pub(super) counters: Counters,
    seats: Mutex<Seats>,
    changed: Condvar,
    failures: Mutex<VecDeque<String>>,
}

/// The connections that exist.
#[derive(Debug, Default)]
struct Seats {
    /// Those that are beyond the connection manager's handshake.
    taken: usize,
    /// Those that are not.
    handshakes: usize,
    /// Those of the first whose host has not sent its connect command, the oldest first: each with a
    /// number of its own, and the host's address.
    half_open: Vec<(u64, IpAddr)>,
    next_number: u64,
    stopping: bool,
}

/// A connection's place among those that may exist. Dropping it makes room for another one.
#[derive(Debug)]
pub(super) struct Seat {
    shared: Arc<Shared>,
    number: u64,
    has_connected: bool,
}

impl Shared {
    pub(super) fn new(
        nic: Nic,
        controllers: Controllers,
        namespaces: Vec<Storage>,
        options: TargetOptions,
    ) -> Self {
        Self {
            nic,
            controllers: Arc::new(controllers),
            namespaces,
            options,
            counters: Counters::default(),
            seats: Mutex::default(),
            changed: Condvar::new(),
            failures: Mutex::default(),
        }
    }

    /// Whether there is room for one more connection.
    pub(super) fn has_seat(&self) -> bool {
        let seats = self.seats.lock();
        !seats.stopping && seats.taken < self.options.connections
    }

    /// A seat for one more connection, if there is room. The connection is half open. If too many
    /// are, another one loses its place.
    pub(super) fn seat(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let mut seats = self.seats.lock();
        if seats.stopping || seats.taken >= self.options.connections {
            return None;
        }
        let peers: Vec<_> = seats.half_open.iter().map(|&(_, peer)| peer).collect();
        if let Some(index) = to_evict(&peers, self.options.half_open) {
            seats.half_open.remove(index);
        }
        let number = seats.next_number;
        seats.next_number += 1;
        seats.taken += 1;
        seats.half_open.push((number, peer));
        Some(Seat {
            shared: Arc::clone(self),
            number,
            has_connected: false,
        })
    }

    /// Notes how many connections are in the connection manager's handshake.
    pub(super) fn set_handshakes(&self, count: usize) {
        self.seats.lock().handshakes = count;
    }

    /// Stops serving, and waits until no queue is served any more.
    pub(super) fn stop(&self) {
        let mut seats = self.seats.lock();
        seats.stopping = true;
        while seats.taken > 0 {
            self.changed.wait(&mut seats);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.seats.lock().stopping
    }

    /// Refuses a request, with the reason.
    pub(super) fn refuse(&self, incoming: Incoming, reason: Refusal) {
        add(&self.counters.refused, 1);
        // This fails if the host has given up meanwhile.
        let _ = incoming.reject(&RejectPrivate { reason }.encode());
    }

    /// Counts a connection that failed, and remembers why.
    pub(super) fn note_failure(&self, why: String) {
        add(&self.counters.failed, 1);
        let mut failures = self.failures.lock();
        if failures.len() == FAILURES {
            failures.pop_front();
        }
        failures.push_back(why);
    }

    pub(super) fn take_failures(&self) -> Vec<String> {
        self.failures.lock().drain(..).collect()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let (controllers, queues) = self.controllers.count();
        let seats = self.seats.lock();
        Snapshot {
            connections: seats.taken + seats.handshakes,
            half_open: seats.half_open.len() + seats.handshakes,
            controllers,
            queues,
            ..self.counters.snapshot()
        }
    }
}

impl Seat {
    /// The host has sent its connect command.
    pub(super) fn connected(&mut self) {
        if std::mem::replace(&mut self.has_connected, true) {
            return;
        }
        let number = self.number;
        let mut seats = self.shared.seats.lock();
        seats.half_open.retain(|&(other, _)| other != number);
    }

    /// Whether the connection is half open, and has not lost its place to another one.
    pub(super) fn is_half_open(&self) -> bool {
        let seats = self.shared.seats.lock();
        seats
            .half_open
            .iter()
            .any(|&(number, _)| number == self.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connected();
        self.shared.seats.lock().taken -= 1;
        self.shared.changed.notify_all();
    }
}

/// Which of these peers' places, the oldest first, has to be given up before another one is taken,
/// if there may be `limit`: the oldest of the address that has the most.
pub(super) fn to_evict(peers: &[IpAddr], limit: usize) -> Option<usize> {
    if peers.len() < limit.max(1) {
        return None;
    }
    let places_of = |peer: &IpAddr| peers.iter().filter(|other| *other == peer).count();
    (0..peers.len())
        .rev()
        .max_by_key(|&index| places_of(&peers[index]))
}

/// A target's state and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Connections that exist, with those that are being made.
    pub connections: usize,
    /// Those of them whose host has not sent its connect command yet.
    pub half_open: usize,
    /// Controllers that exist.
    pub controllers: usize,
    /// I/O queues that exist.
    pub queues: usize,
    /// Connections that the target has refused.
    pub refused: u64,
    /// Connections that ended by an error of the host or of the path.
    pub failed: u64,
    /// Commands that the target has answered.
    pub commands: u64,
    /// Those of them whose answer was not "success".
    pub errors: u64,
    /// Bytes that hosts have read from namespaces.
    pub bytes_read: u64,
    /// Bytes that hosts have written to namespaces.
    pub bytes_written: u64,
}

/// Counters, which only rise.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) commands: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn snapshot(&self) -> Snapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            refused: of(&self.refused),
            failed: of(&self.failed),
            commands: of(&self.commands),
            errors: of(&self.errors),
            bytes_read: of(&self.bytes_read),
            bytes_written: of(&self.bytes_written),
            ..Snapshot::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_place_of_the_greediest_address_is_given_up() {
        let of = |last: &[u8]| -> Vec<IpAddr> {
            last.iter().map(|&last| [10, 0, 0, last].into()).collect()
        };
        for (peers, limit, evicted) in [
            (&[][..], 2, None),
            (&[1], 2, None),
            (&[1, 2], 2, Some(0)),
            (&[2, 1, 3, 1], 4, Some(1)),
            (&[3, 2, 2, 1, 1], 4, Some(1)),
            (&[1], 0, Some(0)),
            (&[], 0, None),
        ] {
            assert_eq!(to_evict(&of(peers), limit), evicted, "{peers:?} of {limit}");
        }
    }
}
