//! Event queues with a descriptor that is readable while they are not empty.

use super::readiness::Readiness;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A bounded queue. Any thread may add to it, take from it, or wait for it.
///
/// Its descriptor is readable while an item is in the queue, or if the queue is closed. It is never
/// writable. Each item that is added is a new edge for those that wait for edges. A thread may also
/// wait by a blocking `read` of 8 bytes, if it then calls [`EventQueue::poll`]: the `read` makes the
/// descriptor unreadable, and taking an item sets it right.
pub struct EventQueue<T> {
    /// It changes only under the queue's lock.
    ready: Readiness,
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
    ///
    /// # Errors
    /// If the operating system has no descriptor left.
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            ready: Readiness::new()?,
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                closed: false,
            }),
            capacity,
        })
    }

    /// Adds an item.
    pub fn push(&self, item: T) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        if queue.items.len() >= self.capacity {
            queue.items.pop_front();
        }
        queue.items.push_back(item);
        self.ready.set();
    }

    /// Ends the queue: what is in it can still be taken, and nothing is added any more.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.closed = true;
            self.ready.set();
        }
    }

    /// Whether nothing is in the queue.
    pub fn is_empty(&self) -> bool {
        self.queue.lock().items.is_empty()
    }

    /// Whether the queue is closed and empty.
    pub(crate) fn is_over(&self) -> bool {
        let queue = self.queue.lock();
        queue.closed && queue.items.is_empty()
    }

    /// Takes the oldest item.
    pub fn poll(&self) -> Option<T> {
        self.poll_then(|_| ())
    }

    /// As [`EventQueue::poll`]. Calls `note` with the item while the queue is locked, so that
    /// [`EventQueue::withdraw`] either finds the item or returns after the call.
    pub fn poll_then(&self, note: impl FnOnce(&T)) -> Option<T> {
        let mut queue = self.queue.lock();
        let item = queue.items.pop_front()?;
        note(&item);
        if !queue.is_ready() {
            self.ready.clear();
        } else if !self.ready.is_set() {
            // A thread has read the descriptor. Otherwise, this would be an edge without an item.
            self.ready.set();
        }
        Some(item)
    }

    /// Takes the items for which `goes` returns true. For the events of an object that is
    /// destroyed.
    pub fn withdraw(&self, goes: impl Fn(&T) -> bool) -> Vec<T> {
        let mut queue = self.queue.lock();
        let items = std::mem::take(&mut queue.items).into_iter();
        let (gone, kept) = items.partition::<Vec<T>, _>(goes);
        queue.items = kept.into();
        if !gone.is_empty() && !queue.is_ready() {
            self.ready.clear();
        }
        gone
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

impl<T> Queue<T> {
    /// Whether the descriptor must be readable.
    fn is_ready(&self) -> bool {
        self.closed || !self.items.is_empty()
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
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

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

    /// Descriptors of the kernel's events are readable and never writable.
    #[test]
    fn the_descriptor_is_never_writable() {
        let queue = EventQueue::new(10).expect("a queue");
        let ready = || {
            let all = PollFlags::POLLIN | PollFlags::POLLOUT;
            let mut fds = [PollFd::new(queue.as_fd(), all)];
            poll(&mut fds, PollTimeout::ZERO).expect("polled");
            fds[0].revents()
        };
        assert_eq!(ready(), Some(PollFlags::empty()));
        queue.push(1);
        assert_eq!(ready(), Some(PollFlags::POLLIN));
    }

    #[test]
    fn each_item_is_an_edge() {
        let queue = EventQueue::new(2).expect("a queue");
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("a descriptor");
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        let added = epoll.add(queue.as_fd(), EpollEvent::new(flags, 0));
        added.expect("it can be polled");
        let edges = || {
            let mut events = [EpollEvent::empty()];
            epoll.wait(&mut events, EpollTimeout::ZERO).expect("polled")
        };
        assert_eq!(edges(), 0);
        // Also while others wait, and when it replaces the oldest.
        for item in 0..3 {
            queue.push(item);
            assert_eq!((edges(), edges()), (1, 0), "item {item}");
        }
        // Taking an item is none.
        assert_eq!((queue.poll(), edges()), (Some(1), 0));
        queue.push(3);
        queue.push(4);
        assert_eq!(edges(), 1);
        assert_eq!((queue.withdraw(|item| *item == 3), edges()), (vec![3], 0));
        assert_eq!((queue.poll(), edges()), (Some(4), 0));
    }

    #[test]
    fn items_of_a_destroyed_object_are_withdrawn() {
        let queue = EventQueue::new(10).expect("a queue");
        for item in 1..=4 {
            queue.push(item);
        }
        assert_eq!(queue.withdraw(|item| item % 2 == 0), [2, 4]);
        assert!(readable(&queue));
        assert_eq!(queue.poll(), Some(1));
        assert_eq!(queue.withdraw(|_| true), [3]);
        assert!(!readable(&queue) && queue.is_empty());
        queue.close();
        assert_eq!(queue.withdraw(|_| true), [0; 0]);
        assert!(readable(&queue));
    }

    /// A thread that waits by `read` makes the descriptor unreadable before it takes its item.
    #[test]
    fn a_read_hides_no_item() {
        let queue = EventQueue::new(10).expect("a queue");
        queue.push(1);
        queue.push(2);
        let read = nix::unistd::read(queue.as_fd(), &mut [0; 8]);
        assert_eq!(read, Ok(8));
        assert_eq!(queue.poll(), Some(1));
        assert!(readable(&queue));
        assert_eq!(queue.poll(), Some(2));
        assert!(!readable(&queue));
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
