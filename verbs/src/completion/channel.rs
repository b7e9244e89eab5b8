//! Completion channels: waiting for completions without polling.

use crate::context::Context;
use crate::error::OpenError;
use crate::runtime::{Driving, EventQueue, wait_for};
use parking_lot::Mutex;
use roce_stack::CqId;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A channel for the completion events of completion queues. A queue raises an event after
/// [`CompletionQueue::request_notify`](crate::CompletionQueue::request_notify). The channel's
/// descriptor is readable while an event is queued.
#[derive(Clone)]
pub struct CompletionChannel {
    context: Context,
    /// A CQ is armed for one event at a time, so the queue holds at most one event for each CQ.
    pub(crate) queue: Arc<EventQueue<CqId>>,
    missed: Arc<Mutex<MissedEvents>>,
}

/// The queues that had completions when the program requested an event for the next one.
type MissedEvents = BTreeMap<CqId, Weak<roce_stack::CompletionQueue>>;

impl Context {
    /// Creates a channel for the completion events of completion queues.
    ///
    /// # Errors
    /// If the operating system has no descriptor left.
    pub fn create_channel(&self) -> Result<CompletionChannel, OpenError> {
        let queue = EventQueue::new(usize::MAX).map_err(OpenError::system("making a timerfd"))?;
        Ok(CompletionChannel {
            context: self.clone(),
            queue: Arc::new(queue),
            missed: Arc::default(),
        })
    }
}

impl CompletionChannel {
    /// Takes the next event, if there is one. An event is the ID of its queue.
    pub fn poll(&self) -> Option<CqId> {
        self.queue.poll()
    }

    /// Waits at most `timeout` for an event, without using the CPU. The thread drives the NIC
    /// meanwhile, or the background thread does.
    ///
    /// # Errors
    /// If the system call that waits fails.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<CqId>> {
        wait_for(&self.context.inner.shared, &self.queue, timeout)
    }
}

/// For a library with a call that waits for an event of the channel.
impl CompletionChannel {
    /// Lets the calling thread drive the NIC while it waits, so that no other thread has to wake up
    /// first. `None` if another thread does that.
    pub fn drive_while_waiting(&self) -> Option<Driving> {
        Driving::begin(&self.context.inner.shared, &self.queue)
    }

    /// The channel's events. The caller may destroy the channel while one of its threads waits for an
    /// event.
    pub fn events(&self) -> Arc<EventQueue<CqId>> {
        Arc::clone(&self.queue)
    }

    /// Takes an event that a program misses if it does not poll the completions that a queue had when
    /// it requested the event ([`CompletionQueue::request_notify_or_miss`]). The request is thereby
    /// cancelled. A caller whose thread would wait delivers this event instead.
    ///
    /// Existing completions raise no event (IBTA 1.7, 10.8.7): the program must poll them before it
    /// waits. perftest 4.5 polls only some of them, and waits forever if no other completion arrives
    /// (fixed in perftest 23.07).
    ///
    /// [`CompletionQueue::request_notify_or_miss`]: crate::CompletionQueue::request_notify_or_miss
    pub fn take_missed_event(&self) -> Option<CqId> {
        loop {
            let (id, queue) = self.missed.lock().pop_first()?;
            if queue.upgrade().is_some_and(|cq| cq.take_missed_event()) {
                return Some(id);
            }
        }
    }

    /// Removes the events of a queue.
    pub(super) fn withdraw(&self, id: CqId) {
        self.queue.withdraw(|cq| *cq == id);
        self.missed.lock().remove(&id);
    }

    /// Records that an event was requested from a queue with completions.
    pub(super) fn event_requested(&self, queue: &Arc<roce_stack::CompletionQueue>) {
        let weak = Arc::downgrade(queue);
        self.missed.lock().insert(queue.id(), weak);
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

debug_fields!(CompletionChannel);
