//! Asynchronous events: what happens beside completions.

use crate::context::Context;
use crate::runtime::Announcements;
use roce_stack::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The asynchronous events of a context (IBTA 1.7, 11.6.3): of its QPs, CQs and SRQs,
/// and of the port. Its descriptor is readable while one waits.
///
/// A context has one queue of events: each goes to whoever takes it first. Events of
/// the port come from the interface, within some two milliseconds:
/// [`Event::PortActive`] and [`Event::PortError`] as its link comes and goes,
/// [`Event::GidChange`] as its addresses change.
#[derive(Clone)]
pub struct AsyncEvents {
    context: Context,
    queue: Arc<Announcements<Event>>,
}

impl Context {
    /// The asynchronous events, such as a QP's failure, to be waited for.
    pub fn async_events(&self) -> AsyncEvents {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        AsyncEvents {
            context: self.clone(),
            queue,
        }
    }

    /// Takes the next asynchronous event, if there is one already.
    pub fn poll_event(&self) -> Option<Event> {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        queue.poll()
    }
}

impl AsyncEvents {
    /// Takes an event that is there already.
    pub fn poll(&self) -> Option<Event> {
        self.queue.poll()
    }

    /// Waits for an event, at most for `timeout`, without using the CPU. The
    /// background thread drives the NIC meanwhile.
    ///
    /// # Errors
    /// If the operating system can't wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<Event>> {
        self.queue.wait(timeout, || self.context.hand_over())
    }
}

impl AsFd for AsyncEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for AsyncEvents {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for AsyncEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncEvents").finish_non_exhaustive()
    }
}
