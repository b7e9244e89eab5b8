//! What the threads of a target share.

use super::TargetOptions;
use super::protocol::Controllers;
use super::stats::{Counters, Snapshot, add};
use super::storage::Storage;
use crate::nic::Nic;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many failures are remembered.
const FAILURES: usize = 64;

/// What the threads of a target share.
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
    taken: usize,
    half_open: usize,
    /// Those that are beyond the connection manager's handshake, and look at `stopping`.
    served: usize,
    stopping: bool,
}

/// A connection's place among those that may exist. Dropping it makes room for another one.
#[derive(Debug)]
pub(super) struct Seat {
    shared: Arc<Shared>,
    is_half_open: bool,
    is_served: bool,
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

    /// A seat for one more connection, if there is room.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let mut seats = self.seats.lock();
        let options = &self.options;
        if seats.stopping
            || seats.taken >= options.connections
            || seats.half_open >= options.half_open
        {
            return None;
        }
        seats.taken += 1;
        seats.half_open += 1;
        Some(Seat {
            shared: Arc::clone(self),
            is_half_open: true,
            is_served: false,
        })
    }

    /// Stops serving, and waits until no queue is served any more. Threads whose peer does not
    /// finish its handshake end later: the connection manager gives such a peer up.
    pub(super) fn stop(&self) {
        let mut seats = self.seats.lock();
        seats.stopping = true;
        while seats.served > 0 {
            self.changed.wait(&mut seats);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.seats.lock().stopping
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
            connections: seats.taken,
            half_open: seats.half_open,
            controllers,
            queues,
            ..self.counters.snapshot()
        }
    }
}

impl Seat {
    /// The connection is beyond the connection manager's handshake. Returns whether it is served:
    /// not if the target is stopping.
    pub(super) fn serve(&mut self) -> bool {
        let mut seats = self.shared.seats.lock();
        if !seats.stopping && !self.is_served {
            seats.served += 1;
            self.is_served = true;
        }
        self.is_served
    }

    /// The host has sent its connect command.
    pub(super) fn connected(&mut self) {
        if std::mem::take(&mut self.is_half_open) {
            self.shared.seats.lock().half_open -= 1;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connected();
        let mut seats = self.shared.seats.lock();
        seats.taken -= 1;
        if self.is_served {
            seats.served -= 1;
        }
        drop(seats);
        self.shared.changed.notify_all();
    }
}
