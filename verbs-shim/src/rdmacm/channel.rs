//! Event channels. A channel is a queue with a descriptor that is readable while the queue is not
//! empty.

use super::event::PendingEvent;
use super::id::Id;
use super::table::table;
use crate::abi::RdmaEventChannel;
use crate::context::blocks;
use crate::guard;
use crate::pointer::CPart;
use crate::wait::Found;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// An event channel.
#[repr(C)]
pub(super) struct Channel {
    c: CPart<RdmaEventChannel>,
    fd: EventFd,
    queue: Mutex<VecDeque<PendingEvent>>,
}

impl Channel {
    /// # Errors
    /// If the system is out of descriptors.
    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        let fd = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Self {
            c: CPart::new(RdmaEventChannel {
                fd: fd.as_fd().as_raw_fd(),
            }),
            fd,
            queue: Mutex::default(),
        }))
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaEventChannel {
        self.c.as_ptr()
    }

    /// Adds an event and wakes up the waiting threads.
    pub(super) fn push(&self, event: PendingEvent) {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            // The counter is 0 while the queue is empty, so this does not block.
            let _ = self.fd.write(1);
        }
        queue.push_back(event);
    }

    /// Takes the next event, if there is one.
    pub(super) fn poll(&self) -> Option<PendingEvent> {
        let mut queue = self.queue.lock();
        let next = queue.pop_front()?;
        self.settle(&queue, true);
        // Count it while the queue is locked: afterwards, the ID could be destroyed.
        next.id.unacknowledged.increment();
        Some(next)
    }

    /// Whether the queue is empty now.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    /// Removes all events of an ID.
    pub(super) fn withdraw(&self, id: &Id) -> Vec<PendingEvent> {
        let mut queue = self.queue.lock();
        let mut taken = Vec::new();
        for event in std::mem::take(&mut *queue) {
            if std::ptr::eq(&*event.id, id) {
                taken.push(event);
            } else {
                queue.push_back(event);
            }
        }
        self.settle(&queue, !taken.is_empty());
        taken
    }

    /// Makes the descriptor unreadable if the last event was taken.
    fn settle(&self, queue: &VecDeque<PendingEvent>, took_some: bool) {
        if took_some && queue.is_empty() {
            // The counter is 1, because the queue was not empty, so this does not block.
            let _ = self.fd.read();
        }
    }

    /// The next event, or the descriptor to wait for.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event and the descriptor is non-blocking.
    pub(super) fn next(&self) -> Result<Found<PendingEvent>, Errno> {
        if let Some(next) = self.poll() {
            return Ok(Found::Now(next));
        }
        match blocks(&self.fd)? {
            true => Ok(Found::WhenReadable(self.fd.as_fd().as_raw_fd())),
            false => Err(Errno::EAGAIN),
        }
    }

    /// Waits until there is an event.
    ///
    /// # Errors
    /// `EINTR` after a signal.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE).map(drop)
    }
}

/// `rdma_create_event_channel`.
pub(crate) extern "C" fn create_event_channel() -> *mut RdmaEventChannel {
    guard::pointer(|| {
        let channel = Channel::new()?;
        let part = channel.as_ptr();
        table()?.channels.add(channel);
        Ok(part)
    })
}

/// `rdma_destroy_event_channel`. IDs that still use the channel keep its descriptor open.
pub(crate) extern "C" fn destroy_event_channel(channel: *mut RdmaEventChannel) {
    guard::nothing(|| table()?.channels.remove(channel).map(drop));
}
