//! Event queues with a descriptor that is readable while they are not empty.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A bounded queue. Any thread may add to it, take from it, or wait for it.
pub(crate) struct EventQueue<T> {
    /// Counts the queue's items, and the end if the queue is closed. It changes only under the
    /// queue's lock, so it is never readable while an open queue is empty.
    ready: EventFd,
    queue: Mutex<Queue<T>>,
    capacity: usize,
}

struct Queue<T> {
    items: VecDeque<T>,
    /// Nothing is added any more. The descriptor stays readable.
    closed: bool,
}

impl<T> EventQueue<T> {
    /// A queue of at most `capacity` items. A further item replaces the oldest.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE;
        Ok(Self {
            ready: EventFd::from_value_and_flags(0, flags)?,
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                closed: false,
            }),
            capacity,
        })
    }

    pub(crate) fn push(&self, item: T) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        if queue.items.len() >= self.capacity {
            queue.items.pop_front();
        } else {
            let _ = self.ready.write(1);
        }
        queue.items.push_back(item);
    }

    /// Ends the queue: what is in it can still be taken, and nothing is added any more.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.closed = true;
            let _ = self.ready.write(1);
        }
    }

    /// Whether nothing is in the queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().items.is_empty()
    }

    /// Whether the queue is closed and empty.
    pub(crate) fn is_over(&self) -> bool {
        let queue = self.queue.lock();
        queue.closed && queue.items.is_empty()
    }

    /// Takes the oldest item.
    pub(crate) fn poll(&self) -> Option<T> {
        let mut queue = self.queue.lock();
        let item = queue.items.pop_front();
        if item.is_some() {
            let _ = self.ready.read();
        }
        item
    }

    /// Takes the oldest item. If there is none, waits at most `timeout` for one, without using the
    /// CPU, unless the queue is closed. Before it sleeps, it calls `hand_over`, so that the background thread drives the NIC
    /// meanwhile.
    pub(crate) fn wait(&self, timeout: Duration, hand_over: impl Fn()) -> io::Result<Option<T>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(item) = self.poll() {
                return Ok(Some(item));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over() {
                return Ok(None);
            }
            hand_over();
            let mut fds = [PollFd::new(self.ready.as_fd(), PollFlags::POLLIN)];
            let millis = left.as_millis().saturating_add(1);
            let wait = PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX))
                .unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, wait) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl<T> AsFd for EventQueue<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(queue: &EventQueue<u32>) -> bool {
        let mut fds = [PollFd::new(queue.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("polled") > 0
    }

    #[test]
    fn the_descriptor_is_readable_while_the_queue_has_items() {
        let queue = EventQueue::new(10).expect("a queue");
        assert!(!readable(&queue));
        queue.push(1);
        queue.push(2);
        for item in [1, 2] {
            assert!(readable(&queue));
            assert_eq!(queue.poll(), Some(item));
        }
        assert!(!readable(&queue));
        assert_eq!(queue.poll(), None);
    }

    #[test]
    fn a_closed_queue_gives_what_it_holds_and_stays_readable() {
        let queue = EventQueue::new(10).expect("a queue");
        queue.push(1);
        queue.close();
        queue.push(2);
        assert!(!queue.is_over());
        assert_eq!(queue.poll(), Some(1));
        assert!(queue.is_over() && readable(&queue));
        assert_eq!(queue.poll(), None);
        let waited = queue.wait(Duration::from_secs(60), || ()).expect("waited");
        assert_eq!(waited, None);
        assert!(readable(&queue));
    }

    #[test]
    fn a_full_queue_drops_the_oldest_item() {
        let queue = EventQueue::new(3).expect("a queue");
        for item in 0..10 {
            queue.push(item);
        }
        for item in [7, 8, 9] {
            assert!(readable(&queue));
            assert_eq!(queue.poll(), Some(item));
        }
        assert!(!readable(&queue));
    }
}
