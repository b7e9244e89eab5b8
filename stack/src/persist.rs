//! Requests to make memory durable, which a NIC leaves to its driver.
//!
//! Making bytes durable may take milliseconds, during which the NIC serves its other QPs. So a
//! FLUSH to persistence waits in its QP, which executes nothing else, while the driver runs the
//! [`Persist`] elsewhere.

use crate::ids::Handle;
use crate::memory::{NotDurable, Stretch};
use std::collections::VecDeque;

/// A request to make bytes durable. The driver runs it, on any thread, and passes the result to
/// [`Nic::finish_persist`](crate::Nic::finish_persist). A peer waits for that.
#[derive(Debug)]
#[must_use = "the peer waits for an answer until it is run"]
pub struct Persist {
    id: PersistId,
    stretch: Stretch,
}

impl Persist {
    /// Makes the bytes durable. May block.
    pub fn run(self) -> Persisted {
        let Stretch {
            durable,
            offset,
            len,
        } = self.stretch;
        Persisted {
            id: self.id,
            result: durable.persist(offset, len),
        }
    }
}

/// The result of a [`Persist`].
#[derive(Debug)]
#[must_use = "the peer waits for an answer until the NIC gets it"]
pub struct Persisted {
    pub(crate) id: PersistId,
    pub(crate) result: Result<(), NotDurable>,
}

/// The QP that waits, and a number that no other request of the NIC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersistId {
    pub(crate) handle: Handle,
    pub(crate) number: u64,
}

/// The requests that the driver has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Persists {
    next: u64,
    waiting: VecDeque<Persist>,
}

impl Persists {
    /// Adds a request of a QP. Returns its number.
    pub(crate) fn push(&mut self, handle: Handle, stretch: Stretch) -> u64 {
        let number = self.next;
        self.next += 1;
        let id = PersistId { handle, number };
        self.waiting.push_back(Persist { id, stretch });
        number
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Persist> {
        self.waiting.pop_front()
    }
}
