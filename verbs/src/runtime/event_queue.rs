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
///
/// A thread that drives the NIC while it waits for the queue adds items that it takes itself. Those
/// are hidden: they leave the descriptor as it is until the thread has taken its item, or gives up.
pub struct EventQueue<T> {
    /// It changes only under the queue's lock.
    ready: Readiness,
    queue: Mutex<Queue<T>>,
    capacity: usize,
}

struct Queue<T> {
    items: VecDeque<T>,
    /// The number of the wait whose thread takes what it adds; 0 if there is none.
    taker: u64,
    /// The number of newest items that are hidden.
    hidden: usize,
    /// The descriptor was made readable, and not unreadable since. A `read` may have done that.
    may_be_readable: bool,
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
                taker: 0,
                hidden: 0,
                may_be_readable: false,
                closed: false,
            }),
            capacity,
        })
    }

    /// Adds an item.
    pub fn push(&self, item: T) {
        self.push_in(0, item);
    }

    /// Adds an item on behalf of the thread of the wait `wait`. The item is hidden if this thread takes
    /// the queue's items ([`EventQueue::begin_taking`]).
    pub(crate) fn push_in(&self, wait: u64, item: T) {
        let mut queue = self.queue.lock();
        let is_taken = wait != 0 && queue.taker == wait;
        match queue.add(item, self.capacity) {
            true if is_taken => queue.hidden += 1,
            true => self.show(&mut queue),
            false => {}
        }
    }

    /// From now on, the thread of the wait `wait` looks for items whenever it has driven the NIC.
    pub(crate) fn begin_taking(&self, wait: u64) {
        self.queue.lock().taker = wait;
    }

    /// Ends what [`EventQueue::begin_taking`] began. Shows the hidden items that are left.
    pub(crate) fn end_taking(&self, wait: u64) {
        let mut queue = self.queue.lock();
        if queue.taker == wait {
            queue.taker = 0;
            if queue.hidden > 0 {
                self.show(&mut queue);
            }
        }
    }

    /// Drops the hidden items. For a thread that has looked at what they are about.
    pub(crate) fn drop_hidden(&self) {
        let mut queue = self.queue.lock();
        let shown = queue.items.len() - queue.hidden;
        queue.items.truncate(shown);
        queue.hidden = 0;
    }

    /// Makes the descriptor readable, which is an edge.
    fn show(&self, queue: &mut Queue<T>) {
        queue.hidden = 0;
        queue.may_be_readable = true;
        self.ready.set();
    }

    /// Makes the descriptor unreadable.
    fn hide(&self, queue: &mut Queue<T>) {
        if std::mem::take(&mut queue.may_be_readable) {
            self.ready.clear();
        }
    }

    /// Ends the queue: what is in it can still be taken, and nothing is added any more.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.closed = true;
            self.show(&mut queue);
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
        let item = queue.take_oldest()?;
        note(&item);
        if !queue.is_ready() {
            self.hide(&mut queue);
        } else if queue.hidden > 0 || !self.ready.is_set() {
            // The thread that has added the items goes away, or a thread has read the descriptor.
            // Otherwise, this would be an edge without an item.
            self.show(&mut queue);
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
            queue.hidden = 0;
            self.hide(&mut queue);
        } else if queue.hidden > 0 {
            self.show(&mut queue);
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
    /// Adds an item, in place of the oldest if there are `capacity` items. Returns false if the queue
    /// is closed.
    fn add(&mut self, item: T, capacity: usize) -> bool {
        if self.closed {
            return false;
        }
        if self.items.len() >= capacity {
            self.take_oldest();
        }
        self.items.push_back(item);
        true
    }

    fn take_oldest(&mut self) -> Option<T> {
        let item = self.items.pop_front();
        self.hidden = self.hidden.min(self.items.len());
        item
    }

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
        let epoll = watch(&queue);
        let edges = || usize::from(edge(&epoll));
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

    /// Returns whether the descriptor became readable anew, since the last call.
    fn edge(epoll: &Epoll) -> bool {
        let mut events = [EpollEvent::empty()];
        epoll.wait(&mut events, EpollTimeout::ZERO).expect("polled") > 0
    }

    fn watch(queue: &EventQueue<u32>) -> Epoll {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("a descriptor");
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        let added = epoll.add(queue.as_fd(), EpollEvent::new(flags, 0));
        added.expect("it can be polled");
        epoll
    }

    #[test]
    fn the_item_that_a_thread_takes_itself_is_no_edge_and_what_it_leaves_is() {
        let queue = EventQueue::new(10).expect("a queue");
        let epoll = watch(&queue);
        queue.begin_taking(7);
        queue.push_in(7, 1);
        assert!(!readable(&queue) && !queue.is_empty());
        assert_eq!((queue.poll(), edge(&epoll)), (Some(1), false));
        // It takes one at a time.
        queue.push_in(7, 2);
        queue.push_in(7, 3);
        assert_eq!((queue.poll(), edge(&epoll)), (Some(2), true));
        assert_eq!(queue.poll(), Some(3));
        assert!(!readable(&queue));
        // It comes back without its item.
        queue.push_in(7, 4);
        queue.end_taking(7);
        assert!(edge(&epoll) && readable(&queue));
        queue.push_in(7, 5);
        assert!(edge(&epoll), "nobody takes it any more");
    }

    /// Also of a wait whose time has passed, so that another one has begun.
    #[test]
    fn the_items_of_others_are_shown_at_once() {
        let queue = EventQueue::new(10).expect("a queue");
        let epoll = watch(&queue);
        for taker in [0, 9] {
            queue.begin_taking(taker);
            for other in [0, 7] {
                queue.push_in(other, 1);
                assert!(edge(&epoll), "{other} while {taker} takes");
            }
        }
        // A later event of another thread shows those, too.
        while queue.poll().is_some() {}
        queue.push_in(9, 1);
        queue.push(2);
        assert!(edge(&epoll));
        assert_eq!((queue.poll(), edge(&epoll)), (Some(1), false));
        queue.end_taking(7);
        queue.push_in(9, 3);
        assert!(!edge(&epoll), "9 still takes them");
    }

    #[test]
    fn hidden_items_are_dropped_withdrawn_and_replaced_as_others() {
        let queue = EventQueue::new(3).expect("a queue");
        let epoll = watch(&queue);
        queue.begin_taking(1);
        queue.push(1);
        assert!(edge(&epoll));
        queue.push_in(1, 2);
        queue.drop_hidden();
        assert_eq!((queue.poll(), queue.poll()), (Some(1), None));
        for item in 1..=5 {
            queue.push_in(1, item);
        }
        assert!(!edge(&epoll));
        assert_eq!(
            (queue.withdraw(|item| *item == 4), edge(&epoll)),
            (vec![4], true)
        );
        assert_eq!((queue.poll(), edge(&epoll)), (Some(3), false));
        queue.push_in(1, 6);
        assert_eq!(queue.withdraw(|_| true), [5, 6]);
        assert!(!readable(&queue));
        queue.push_in(1, 7);
        assert_eq!((queue.poll(), edge(&epoll)), (Some(7), false));
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
