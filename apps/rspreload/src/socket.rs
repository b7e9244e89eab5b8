//! The program's TCP sockets.

use crate::address::Address;
use crate::{kinds, rdmacm};
use std::ffi::c_int;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// The child that listens over RDMA instead of this process.
#[derive(Default)]
pub(crate) struct Given {
    is_given: AtomicBool,
    to: AtomicU64,
}

impl Given {
    /// Whether the listener was ever given to a child.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// The number of the child; 0 if it has exited.
    pub(crate) fn to(&self) -> u64 {
        self.to.load(Ordering::Acquire)
    }

    pub(crate) fn give(&self, child: u64) {
        self.is_given.store(true, Ordering::Release);
        self.to.store(child, Ordering::Release);
    }

    /// Called when a child has exited.
    pub(crate) fn clear(&self, child: u64) {
        // Fails if another child has the listener, or none.
        let _ = self
            .to
            .compare_exchange(child, 0, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Neither connected nor listening; the kernel's socket answers.
    Fresh,
    /// Listening over RDMA, and the kernel's socket over TCP.
    Listening,
    /// Connecting over RDMA.
    Connecting,
    /// Connected over RDMA.
    Connected,
    /// A connection of the parent process, which hands it over on first use.
    OfParent,
    /// A listener of the parent process.
    ListenerOfParent,
}

/// An attempt to connect over RDMA.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) to: Address,
    /// When to fall back to TCP.
    pub(crate) until: Instant,
}

/// A socket, shared by all its descriptors in this process and by calls in progress. The last reference
/// closes the rsocket, as the kernel does with files.
pub(crate) struct Socket {
    phase: AtomicU8,
    rs: AtomicI32,
    /// The process that created the rsocket: see [`forks`].
    process: u32,
    /// Identifies it in messages between parent and child.
    pub(crate) id: u64,
    pub(crate) domain: c_int,
    pub(crate) is_nonblocking: AtomicBool,
    /// Whether `O_NONBLOCK` is forced on the kernel's socket: see `listen`.
    pub(crate) is_kernel_nonblocking: AtomicBool,
    receive_limit: AtomicU64,
    send_limit: AtomicU64,
    /// The number of the program's descriptors in this process.
    pub(crate) fds: AtomicUsize,
    /// Whether the program has shut down the send side.
    pub(crate) is_send_shut: AtomicBool,
    /// Whether `close` waits until the peer has received everything.
    pub(crate) lingers: AtomicBool,
    /// For a listener: whether this process waits for connections or has accepted one.
    pub(crate) is_used: AtomicBool,
    /// For a listener: the child that listens over RDMA instead.
    pub(crate) given: Arc<Given>,
    /// For a listener: whether it refuses RDMA because children use its connections.
    pub(crate) is_left_to_tcp: AtomicBool,
    /// The listener that accepted it in this process.
    pub(crate) listener: Weak<Self>,
    /// Counts reads, after which an edge-triggered event may be reported again.
    pub(crate) reads: AtomicU32,
    /// Counts sends that found the buffer full.
    pub(crate) full: AtomicU32,
    /// The number of threads that wait on an epoll instance without some events of this socket.
    pub(crate) masked: AtomicU32,
    /// An error that `SO_ERROR` returns once.
    pub(crate) error: AtomicI32,
    attempt: Mutex<Option<Attempt>>,
    /// The eventfds of relays to wake up when the last descriptor is closed.
    pub(crate) relays: Mutex<Vec<c_int>>,
}

/// The number of forks between the program's first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

static IDS: AtomicU64 = AtomicU64::new(1);

/// Locks a mutex and ignores poison.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex at exit. `None` if it stays locked, maybe by this thread before a signal interrupted
/// it.
pub(crate) fn lock_at_exit<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

impl Socket {
    pub(crate) fn new(domain: c_int, is_nonblocking: bool) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Fresh as u8),
            rs: AtomicI32::new(-1),
            process: forks(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            domain,
            is_nonblocking: AtomicBool::new(is_nonblocking),
            is_kernel_nonblocking: AtomicBool::new(false),
            receive_limit: AtomicU64::new(0),
            send_limit: AtomicU64::new(0),
            fds: AtomicUsize::new(0),
            is_send_shut: AtomicBool::new(false),
            lingers: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            given: Arc::default(),
            is_left_to_tcp: AtomicBool::new(false),
            listener: Weak::new(),
            reads: AtomicU32::new(0),
            full: AtomicU32::new(0),
            masked: AtomicU32::new(0),
            error: AtomicI32::new(0),
            attempt: Mutex::new(None),
            relays: Mutex::new(Vec::new()),
        }
    }

    /// Creates the socket of an accepted connection.
    pub(crate) fn from_accept(listener: &Arc<Self>, is_nonblocking: bool, rs: c_int) -> Self {
        let mut socket = Self::new(listener.domain, is_nonblocking);
        socket.listener = Arc::downgrade(listener);
        socket.attach(rs, Phase::Connected);
        socket
    }

    /// Creates the forked child's copy. Takes no lock, because threads that the child lacks may hold
    /// them.
    pub(crate) fn in_child(&self) -> Self {
        let phase = match self.phase() {
            Phase::Connected | Phase::OfParent => Phase::OfParent,
            Phase::Listening | Phase::ListenerOfParent => Phase::ListenerOfParent,
            Phase::Fresh if self.given.is_given() => Phase::ListenerOfParent,
            Phase::Fresh | Phase::Connecting => Phase::Fresh,
        };
        let mut child = Self::new(self.domain, self.is_nonblocking());
        child.id = self.id;
        for (of_child, of_parent) in [
            (&child.receive_limit, &self.receive_limit),
            (&child.send_limit, &self.send_limit),
        ] {
            of_child.store(of_parent.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let is_kernel_nonblocking = self.is_kernel_nonblocking.load(Ordering::Relaxed);
        child.is_kernel_nonblocking = AtomicBool::new(is_kernel_nonblocking);
        child.set_phase(phase);
        child
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            1 => Phase::Listening,
            2 => Phase::Connecting,
            3 => Phase::Connected,
            4 => Phase::OfParent,
            5 => Phase::ListenerOfParent,
            _ => Phase::Fresh,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The rsocket, or -1.
    pub(crate) fn rs(&self) -> c_int {
        self.rs.load(Ordering::Acquire)
    }

    /// Attaches an rsocket.
    pub(crate) fn attach(&self, rs: c_int, phase: Phase) {
        kinds::set(rs, kinds::Kind::Hidden);
        self.rs.store(rs, Ordering::Release);
        self.set_phase(phase);
    }

    /// Closes the rsocket. The kernel's socket answers from now on.
    pub(crate) fn drop_rsocket(&self) {
        self.set_phase(Phase::Fresh);
        self.close_rsocket();
    }

    fn close_rsocket(&self) {
        let rs = self.rs.swap(-1, Ordering::AcqRel);
        // A forked child must not close its parent's rsocket.
        if rs >= 0 && self.process == forks() {
            if self.lingers.load(Ordering::Relaxed) {
                rdmacm::set_blocking(rs);
            }
            // Before the close, after which the kernel may reuse the number.
            kinds::set(rs, kinds::Kind::Other);
            rdmacm::close(rs);
        }
    }

    pub(crate) fn attempt(&self) -> MutexGuard<'_, Option<Attempt>> {
        lock(&self.attempt)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    /// `SO_RCVTIMEO`.
    pub(crate) fn receive_limit(&self) -> Option<Duration> {
        load_limit(&self.receive_limit)
    }

    /// `SO_SNDTIMEO`.
    pub(crate) fn send_limit(&self) -> Option<Duration> {
        load_limit(&self.send_limit)
    }

    pub(crate) fn set_receive_limit(&self, to: Duration) {
        store_limit(&self.receive_limit, to);
    }

    pub(crate) fn set_send_limit(&self, to: Duration) {
        store_limit(&self.send_limit, to);
    }
}

fn load_limit(of: &AtomicU64) -> Option<Duration> {
    let nanoseconds = of.load(Ordering::Relaxed);
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

fn store_limit(of: &AtomicU64, to: Duration) {
    let nanoseconds = u64::try_from(to.as_nanos()).unwrap_or(u64::MAX);
    of.store(nanoseconds, Ordering::Relaxed);
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close_rsocket();
    }
}
