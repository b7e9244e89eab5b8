//! A datagram socket: the kernel's UDP socket, and a UD QP for each local address in use.
//!
//! A datagram to a peer whose QP is unknown goes over the UDP socket, with a header that has the
//! sender's QPN. The peer's service thread answers with its own, and the datagrams that follow go
//! from QP to QP.

mod endpoint;
mod failures;
mod inbox;
mod names;
mod peers;
mod receiving;
mod sending;
mod service;
mod set;
mod udp;

pub use receiving::Received;
pub(crate) use service::Service;

use crate::error::Error;
use crate::nic::Nic;
use crate::options::{Sizes, configuration};
use crate::socket::Domain;
use crate::wait::{Patience, sleep};
use endpoint::{Endpoint, Event};
use failures::Failures;
use inbox::{Arrived, Inbox, Place};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use peers::Peers;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use udp::Udp;

/// The most local addresses that a socket uses.
const MAX_ENDPOINTS: usize = 64;

/// The most completions that are handled before the caller gets its turn.
const MAX_TURN: usize = 1024;

/// A datagram socket. Its descriptor is that of the UDP socket, as with rdma-core.
pub(crate) struct Datagram {
    udp: Udp,
    /// Readable while threads that sleep must look at the socket again.
    news: EventFd,
    domain: Domain,
    nonblocking: AtomicBool,
    state: Mutex<State>,
}

/// What is behind a socket's lock.
struct State {
    /// The UDP socket's address, once it has a port.
    local: Option<SocketAddr>,
    /// The same without what a connect has chosen.
    bound: Option<SocketAddr>,
    connected: Option<SocketAddr>,
    endpoints: Vec<Endpoint>,
    failures: Failures,
    peers: Peers,
    inbox: Inbox,
    sizes: Sizes,
    receive_timeout: Option<Duration>,
    send_timeout: Option<Duration>,
    /// Whether the program still reads, and writes.
    reads: bool,
    writes: bool,
    closed: bool,
    /// What the network has reported about a datagram that was sent.
    error: Option<Errno>,
    /// The number of threads that sleep until something happens.
    sleepers: usize,
}

impl Datagram {
    pub(crate) fn new(domain: Domain) -> Result<Arc<Self>, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Arc::new(Self {
            udp: Udp::new(domain)?,
            news: EventFd::from_value_and_flags(0, flags)?,
            domain,
            nonblocking: AtomicBool::new(false),
            state: Mutex::new(State {
                local: None,
                bound: None,
                connected: None,
                endpoints: Vec::new(),
                failures: Failures::default(),
                peers: Peers::default(),
                inbox: Inbox::default(),
                sizes: configuration().sizes,
                receive_timeout: None,
                send_timeout: None,
                reads: true,
                writes: true,
                closed: false,
                error: None,
                sleepers: 0,
            }),
        }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.udp.fd()
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
            descriptors.push(self.news.as_raw_fd());
            state.hand_over();
            state.sleepers += 1;
            drop(state);
            let slept = sleep(&descriptors, patience.left());
            self.wake_up(&mut self.state.lock());
            slept?;
        }
    }

    /// Handles what has happened at the endpoints, and lets sleeping threads look at the result.
    fn progress_locked(&self, state: &mut State, drive: bool) {
        self.progress_if(state, |_| drive);
    }

    fn progress_if(&self, state: &mut State, drive: impl FnMut(*const Nic) -> bool) {
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

    /// For `poll`: handles what has happened. Lets each of the socket's NICs work first for which
    /// `drive` says so.
    pub(crate) fn progress(&self, drive: impl FnMut(*const Nic) -> bool) {
        self.progress_if(&mut self.state.lock(), drive);
    }

    /// For `poll`: what the program need not wait for.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.state.lock().ready() & (events | always)
    }

    /// For `poll`: the thread is about to sleep until one of these descriptors is readable. It then
    /// calls [`Datagram::end_sleep`].
    pub(crate) fn begin_sleep(&self, mut each: impl FnMut(RawFd)) {
        let mut state = self.state.lock();
        state.sleepers += 1;
        state.arm();
        self.progress_locked(&mut state, false);
        state.descriptors(&mut each);
        each(self.news.as_raw_fd());
        state.hand_over();
    }

    /// For `poll`: the thread has slept.
    pub(crate) fn end_sleep(&self) {
        self.wake_up(&mut self.state.lock());
    }
}

impl State {
    /// Handles what has happened at the endpoints. Lets each NIC work first for which `drive` says
    /// so. Returns whether there was anything.
    fn progress(&mut self, mut drive: impl FnMut(*const Nic) -> bool) -> bool {
        let mut changed = false;
        for place in 0..self.endpoints.len() {
            let drive = drive(self.endpoints[place].nic());
            for _ in 0..MAX_TURN {
                let Some(event) = self.endpoints[place].next(drive) else {
                    break;
                };
                self.handle(place, event);
                changed = true;
            }
        }
        changed
    }

    fn handle(&mut self, endpoint: usize, event: Event) {
        let Event::Arrived {
            source,
            slot,
            start,
            len,
        } = event
        else {
            return;
        };
        if !self.takes_from(source) {
            return self.endpoints[endpoint].release(slot);
        }
        let place = Place::Receive {
            endpoint,
            slot,
            start,
        };
        self.inbox.push_receive(Arrived { source, len, place });
    }

    /// Whether the program wants datagrams of this peer.
    fn takes_from(&self, source: SocketAddr) -> bool {
        self.reads && self.connected.is_none_or(|connected| connected == source)
    }

    /// Asks for an event at the descriptors when something happens. The caller then calls
    /// [`State::progress`] once more before it sleeps.
    fn arm(&self) {
        self.endpoints.iter().for_each(Endpoint::arm);
    }

    fn descriptors(&self, each: impl FnMut(RawFd)) {
        self.endpoints
            .iter()
            .map(Endpoint::descriptor)
            .for_each(each);
    }

    fn hand_over(&self) {
        self.endpoints.iter().for_each(Endpoint::hand_over);
    }

    /// What a program need not wait for, as bits of `poll`.
    fn ready(&self) -> i16 {
        const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
        const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
        let when = |is: bool, bits: i16| if is { bits } else { 0 };
        when(self.inbox.first().is_some() || !self.reads, IN)
            | when(!self.reads, libc::POLLRDHUP)
            | when(!self.reads && !self.writes, libc::POLLHUP)
            | when(
                self.endpoints
                    .iter()
                    .all(|each| each.can_send() || each.is_broken()),
                OUT,
            )
            | when(self.error.is_some(), libc::POLLERR)
            | when(self.closed, libc::POLLNVAL)
    }

    /// The place of the endpoint at a local address, which is made if there is none.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if no device has the address; others if memory or descriptors run out.
    fn endpoint_at(&mut self, local: SocketAddr) -> Result<usize, Error> {
        let at = |each: &Endpoint| each.local().ip() == local.ip();
        let place = match self.endpoints.iter().position(at) {
            Some(place) if !self.endpoints[place].is_broken() => return Ok(place),
            Some(broken) => broken,
            None if self.endpoints.len() == MAX_ENDPOINTS => {
                let what = format!("the socket uses {MAX_ENDPOINTS} local addresses, the most");
                return Err(Error::new(Errno::ENOBUFS, what));
            }
            None => self.endpoints.len(),
        };
        let new = Endpoint::new(local, &self.sizes)?;
        match self.endpoints.get_mut(place) {
            Some(broken) => {
                *broken = new;
                self.inbox.forget(place);
            }
            None => self.endpoints.push(new),
        }
        Ok(place)
    }

    /// # Errors
    /// EBADF if another thread has closed the socket.
    fn check_open(&self) -> Result<(), Error> {
        if self.closed {
            return Err(Errno::EBADF.into());
        }
        Ok(())
    }

    /// Takes the pending error.
    fn report(&mut self) -> Result<(), Error> {
        self.error.take().map_or(Ok(()), |errno| Err(errno.into()))
    }
}
