//! Event channels: queues with a descriptor.

use super::event::PendingEvent;
use super::id::Id;
use super::table::table;
use crate::context::{blocks, make_blocking};
use crate::prelude::*;
use crate::wait::{self, Found};
use roce_verbs::device::EventQueue;
use std::os::fd::{AsFd, AsRawFd};

#[repr(C)]
pub(super) struct Channel {
    c: CPart<RdmaEventChannel>,
    queue: EventQueue<PendingEvent>,
}

impl Channel {
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
    pub(super) fn push(&self, event: PendingEvent) {
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

    /// Removes all events of an ID.
    pub(super) fn withdraw(&self, id: &Id) -> Vec<PendingEvent> {
        self.queue.withdraw(|event| std::ptr::eq(&*event.id, id))
    }

    /// The next event, or the descriptor to wait for.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event and the descriptor is non-blocking.
    pub(super) fn next(&self) -> Result<Found<PendingEvent>, Errno> {
        // Count it while the queue is locked: afterwards, the ID could be destroyed.
        let count = |event: &PendingEvent| event.id.unacknowledged.increment();
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

pub(crate) extern "C" fn create_event_channel() -> *mut RdmaEventChannel {
    guard::pointer("rdma_create_event_channel", || {
        let channel = Channel::new()?;
        let part = channel.as_ptr();
        table()?.add_channel(channel);
        Ok(part)
    })
}

/// `rdma_destroy_event_channel`. IDs that still use the channel keep its descriptor open.
pub(crate) extern "C" fn destroy_event_channel(channel: *mut RdmaEventChannel) {
    guard::nothing("rdma_destroy_event_channel", || {
        table()?.remove_channel(channel)
    });
}
