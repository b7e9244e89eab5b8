//! A stream socket: its state, and the waiting of calls.

mod connecting;
mod listening;
mod names;
mod route;
mod set;
mod transfer;

use crate::error::{Error, OrErrno};
use crate::nic::Nic;
use crate::options::{Sizes, configuration};
use crate::stream::{Endpoint, Stream};
use crate::wait::{Patience, sleep};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_verbs::cm::{Connecting, Listener, PortClaim};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use set::Settings;

pub use route::Route;
pub use set::{Number, Time};
pub use transfer::{ReceiveFlags, Shutdown};

/// The addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// AF_INET.
    V4,
    /// AF_INET6, which can also reach IPv4 addresses.
    V6,
}

/// A stream socket.
pub(crate) struct Socket {
    /// The socket's descriptor. It is readable while threads that sleep must look at the socket
    /// again.
    news: EventFd,
    domain: Domain,
    nonblocking: AtomicBool,
    state: Mutex<State>,
}

/// What is behind a socket's lock.
pub(crate) struct State {
    phase: Phase,
    sizes: Sizes,
    settings: Settings,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    claim: Option<Arc<PortClaim>>,
    /// For SO_ERROR.
    error: Option<Errno>,
    /// The number of threads that sleep until something happens.
    sleepers: usize,
}

enum Phase {
    /// Not connected.
    Idle,
    Listening(Vec<(Arc<Nic>, Listener)>),
    Connecting(Box<(Connecting, Endpoint)>),
    Stream(Box<Stream>),
    /// Connecting has failed.
    Failed(Errno),
    /// Closed, perhaps while other threads still use it.
    Closed,
}

impl Socket {
    pub(crate) fn new(domain: Domain) -> Result<Arc<Self>, Error> {
        Self::with(domain, Phase::Idle, configuration().sizes)
    }

    fn with(domain: Domain, phase: Phase, sizes: Sizes) -> Result<Arc<Self>, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let news = EventFd::from_value_and_flags(0, flags)?;
        Ok(Arc::new(Self {
            news,
            domain,
            nonblocking: AtomicBool::new(false),
            state: Mutex::new(State {
                phase,
                sizes,
                settings: Settings::default(),
                local: None,
                remote: None,
                claim: None,
                error: None,
                sleepers: 0,
            }),
        }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// The patience of a call that waits at most `limit`.
    fn patience(&self, dont_wait: bool, limit: Option<Duration>) -> Patience {
        if dont_wait || self.is_nonblocking() {
            Patience::None
        } else {
            Patience::of(limit)
        }
    }

    /// Calls `attempt` until it gives a result, each time after everything has been handled that
    /// has happened to the socket.
    ///
    /// # Errors
    /// EAGAIN if the patience is over, EINTR after a signal, and the errors of `attempt`.
    fn wait<T>(
        &self,
        patience: Patience,
        mut attempt: impl FnMut(&mut State) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let polling = configuration().polling;
        let mut began: Option<Instant> = None;
        let mut descriptors = Vec::new();
        loop {
            let mut state = self.state.lock();
            self.progress_locked(&mut state, true);
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            if patience.is_over() {
                return Err(Errno::EAGAIN.into());
            }
            if began.get_or_insert_with(Instant::now).elapsed() < polling {
                continue;
            }
            state.arm();
            self.progress_locked(&mut state, true);
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            descriptors.clear();
            state.descriptors(|fd| descriptors.push(fd));
            descriptors.push(self.fd());
            state.hand_over();
            state.sleepers += 1;
            drop(state);
            let slept = sleep(&descriptors, patience.left());
            self.wake_up(&mut self.state.lock());
            slept?;
        }
    }

    /// Handles what has happened to the socket, and lets sleeping threads look at the result.
    fn progress_locked(&self, state: &mut State, drive: bool) {
        if state.progress(drive) {
            self.announce(state);
        }
    }

    /// Something has changed: wakes up the threads that sleep.
    fn announce(&self, state: &State) {
        if state.sleepers > 0 {
            // This fails if the counter is full, and then the descriptor is readable.
            let _ = self.news.write(1);
        }
    }

    /// A thread has slept. The descriptor stays readable until the last one has woken up.
    fn wake_up(&self, state: &mut State) {
        state.sleepers -= 1;
        if state.sleepers == 0 {
            // This fails if nothing was announced.
            let _ = self.news.read();
        }
    }

    /// For `poll`: handles what has happened. Lets the socket's NIC work first if `drive` says so.
    pub(crate) fn progress(&self, drive: impl FnOnce(*const Nic) -> bool) {
        let mut state = self.state.lock();
        let nic = match &state.phase {
            Phase::Stream(stream) => Some(stream.nic()),
            _ => None,
        };
        let drive = nic.is_some_and(drive);
        self.progress_locked(&mut state, drive);
    }

    /// For `poll`: what the program need not wait for.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.state.lock().ready() & (events | always)
    }

    /// For `poll`: the thread is about to sleep until one of these descriptors is readable. It then
    /// calls [`Socket::end_sleep`].
    pub(crate) fn begin_sleep(&self, mut each: impl FnMut(RawFd)) {
        let mut state = self.state.lock();
        state.sleepers += 1;
        state.arm();
        self.progress_locked(&mut state, false);
        state.descriptors(&mut each);
        each(self.fd());
        state.hand_over();
    }

    /// For `poll`: the thread has slept.
    pub(crate) fn end_sleep(&self) {
        self.wake_up(&mut self.state.lock());
    }
}

impl State {
    /// Handles what has happened. Returns whether there was anything.
    fn progress(&mut self, drive: bool) -> bool {
        match &mut self.phase {
            Phase::Stream(stream) => stream.progress(drive),
            Phase::Connecting(_) => self.go_on_connecting(),
            _ => false,
        }
    }

    fn arm(&mut self) {
        if let Phase::Stream(stream) = &mut self.phase {
            stream.arm();
        }
    }

    fn descriptors(&self, mut each: impl FnMut(RawFd)) {
        use std::os::fd::AsFd;
        match &self.phase {
            Phase::Stream(stream) => stream.descriptors(each),
            Phase::Connecting(connecting) => each(connecting.0.as_fd().as_raw_fd()),
            Phase::Listening(listeners) => {
                for (_, listener) in listeners {
                    each(listener.as_fd().as_raw_fd());
                }
            }
            Phase::Idle | Phase::Failed(_) | Phase::Closed => {}
        }
    }

    fn hand_over(&self) {
        match &self.phase {
            Phase::Stream(stream) => stream.hand_over(),
            Phase::Connecting(connecting) => connecting.1.nic.context.hand_over(),
            Phase::Listening(listeners) => {
                for (nic, _) in listeners {
                    nic.context.hand_over();
                }
            }
            Phase::Idle | Phase::Failed(_) | Phase::Closed => {}
        }
    }

    /// What a program need not wait for, as bits of `poll`.
    fn ready(&self) -> i16 {
        const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
        const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
        let when = |is: bool, bits: i16| if is { bits } else { 0 };
        match &self.phase {
            Phase::Stream(stream) => {
                when(stream.is_readable(), IN)
                    | when(stream.is_writable(), OUT)
                    | when(stream.reads_nothing(), libc::POLLRDHUP)
                    | when(stream.is_shut(), libc::POLLHUP)
                    | when(stream.is_broken(), libc::POLLERR)
            }
            Phase::Listening(listeners) => when(
                listeners.iter().any(|(_, listener)| listener.has_request()),
                IN,
            ),
            Phase::Failed(_) => IN | OUT | libc::POLLERR | libc::POLLHUP,
            Phase::Idle => OUT | libc::POLLHUP,
            Phase::Connecting(_) => 0,
            Phase::Closed => libc::POLLNVAL,
        }
    }
}
