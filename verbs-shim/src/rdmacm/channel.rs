//! Event channels: queues with a descriptor. `E` is an event.

use crate::prelude::*;
use crate::wait::{self, Found, blocks, make_blocking};
use roce_verbs::device::EventQueue;
use std::os::fd::{AsFd, AsRawFd};

#[repr(C)]
pub(super) struct Channel<E> {
    c: CPart<RdmaEventChannel>,
    queue: EventQueue<E>,
}

impl<E> Channel<E> {
    /// # Errors
    /// If the system is out of descriptors.
    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        let queue = EventQueue::new(usize::MAX).or_errno()?;
        make_blocking(&queue)?;
        Ok(Arc::new(Self {
            c: CPart::new(RdmaEventChannel {
                fd: queue.as_fd().as_raw_fd(),
            }),
            queue,
        }))
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaEventChannel {
        self.c.as_ptr()
    }

    /// Adds an event and wakes up the waiting threads.
    pub(super) fn push(&self, event: E) {
        self.queue.push(event);
    }

    /// Whether there is no event now.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a call at the channel waits for an event.
    pub(super) fn is_blocking(&self) -> Result<bool, Errno> {
        blocks(&self.queue)
    }

    /// Removes the events that `select` selects.
    pub(super) fn withdraw(&self, select: impl Fn(&E) -> bool) -> Vec<E> {
        self.queue.withdraw(select)
    }

    /// The next event, or the descriptor to wait for. `count` counts the event as delivered while the
    /// queue is locked: afterwards, its ID could be destroyed.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event and the descriptor is non-blocking.
    pub(super) fn next(&self, count: impl Fn(&E)) -> Result<Found<E>, Errno> {
        if let Some(next) = self.queue.poll_then(count) {
            return Ok(Found::Now(next));
        }
        match self.is_blocking()? {
            true => Ok(Found::WhenReadable(self.queue.as_fd().as_raw_fd())),
            false => Err(Errno::EAGAIN),
        }
    }

    /// For a call at the channel, which waits until there may be an event.
    pub(super) fn when_readable<T>(&self) -> Found<T> {
        wait::when_readable(&self.queue)
    }

    /// Waits until there may be an event.
    ///
    /// # Errors
    /// `EINTR` after a signal whose handler has no `SA_RESTART`.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        wait::until_readable(&self.queue)
    }
}
