//! Asynchronous events: what a device reports other than completions.

use crate::context::Context;
use crate::context::show_wait_for_program;
use crate::runtime::EventQueue;
use parking_lot::{Condvar, Mutex};
use roce_stack::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The asynchronous events of a context (IBTA 1.7, 11.6.3): those of its QPs, CQs and SRQs, and
/// those of the port. The descriptor is readable while an event is queued.
///
/// A context has one queue of events. Each event goes to the first caller that takes it. The port's
/// events follow the interface within about two milliseconds: [`Event::PortActive`] and
/// [`Event::PortError`] when its link comes up or goes down, [`Event::GidChange`] when its
/// addresses change.
#[derive(Clone)]
pub struct AsyncEvents {
    context: Context,
    queue: Arc<EventQueue<Event>>,
}

impl Context {
    /// The queue of asynchronous events, such as a QP's failure, for programs that wait for them.
    pub fn async_events(&self) -> AsyncEvents {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        AsyncEvents {
            context: self.clone(),
            queue,
        }
    }

    /// Takes the next asynchronous event, if there is one.
    pub fn poll_event(&self) -> Option<Event> {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        queue.poll()
    }
}

impl AsyncEvents {
    /// Takes the next event, if there is one.
    pub fn poll(&self) -> Option<Event> {
        self.queue.poll()
    }

    /// Waits at most `timeout` for an event, without using the CPU. The background thread drives
    /// the NIC meanwhile.
    ///
    /// # Errors
    /// If the system call that waits fails.
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

debug_fields!(AsyncEvents);

/// The number of an object's delivered events that the program has not acknowledged yet. Destroying
/// the object waits until it is 0.
#[derive(Debug, Default)]
pub struct Unacknowledged {
    count: Mutex<u64>,
    acknowledged: Condvar,
}

impl Unacknowledged {
    /// Counts an event that was delivered.
    pub fn increment(&self) {
        *self.count.lock() += 1;
    }

    /// Acknowledges `events` events, or all of them if `events` exceeds their number.
    pub fn acknowledge(&self, events: u64) {
        let mut count = self.count.lock();
        *count = count.saturating_sub(events);
        self.acknowledged.notify_all();
    }

    /// Whether a thread waits in [`Unacknowledged::wait_for_all`]. It wakes up, and waits on.
    pub fn has_waiter(&self) -> bool {
        self.acknowledged.notify_all() > 0
    }

    /// Waits until all are acknowledged. Meanwhile `roce why` shows which `call` waits, and for what.
    pub fn wait_for_all(&self, call: &str, events: &str) {
        let mut count = self.count.lock();
        if *count == 0 {
            return;
        }
        let _shown = show_wait_for_program(call, *count, events);
        self.acknowledged.wait_while(&mut count, |count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Unacknowledged;
    use crate::device::{Device, Event};
    use crate::qp::{SrqAttributes, SrqOptions};
    use std::net::Ipv4Addr;

    #[test]
    fn events_of_a_destroyed_object_vanish() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let pd = context.alloc_pd();
        // Each SRQ has fewer receives than its limit.
        let limited = || {
            let srq = pd.create_srq(&SrqOptions::default()).expect("room");
            let limit = SrqAttributes {
                limit: Some(1),
                ..SrqAttributes::default()
            };
            srq.modify(&limit).expect("a valid limit");
            srq
        };
        let (gone, stays) = (limited(), limited());
        drop(gone);
        let expected = Event::SrqLimit(stays.number());
        assert_eq!(context.poll_event(), Some(expected));
        assert_eq!(context.poll_event(), None);
    }

    #[test]
    fn a_destruction_waits_for_all_acknowledgements() {
        let unacknowledged = Unacknowledged::default();
        unacknowledged.increment();
        unacknowledged.increment();
        std::thread::scope(|scope| {
            let destruction = scope.spawn(|| unacknowledged.wait_for_all("destroying", ""));
            while !unacknowledged.has_waiter() {
                assert!(!destruction.is_finished(), "it does not wait");
                std::thread::yield_now();
            }
            unacknowledged.acknowledge(1);
            assert_eq!(*unacknowledged.count.lock(), 1);
            unacknowledged.acknowledge(1);
        });
        unacknowledged.increment();
        unacknowledged.acknowledge(u64::MAX);
        unacknowledged.wait_for_all("", "");
    }
}
