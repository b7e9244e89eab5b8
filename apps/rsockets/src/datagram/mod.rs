//! A datagram socket: the kernel's UDP socket, and a UD QP for each local address in use.
//!
//! While a peer's QP is unknown, datagrams go over the UDP socket, with a header that carries the
//! sender's QPN. The peer's service thread answers with its own QPN, and later datagrams go from QP to
//! QP.

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

use crate::error::Error;
use crate::nic::Nic;
use crate::options::{Sizes, configuration};
use crate::shared::{Awaited, Shared};
use crate::socket::Domain;
use crate::wait::Patience;
use endpoint::{Endpoint, Event};
use failures::Failures;
use inbox::{Arrived, Inbox, Place};
use nix::errno::Errno;
use peers::Peers;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use udp::Udp;

/// Maximum number of local addresses that a socket uses.
const MAX_ENDPOINTS: usize = 64;

/// Maximum number of completions per call of `progress` and endpoint.
const MAX_TURN: usize = 1024;

/// A datagram socket. Its descriptor is the UDP socket's, as in rdma-core.
pub(crate) struct Datagram {
    this: Weak<Self>,
    udp: Udp,
    domain: Domain,
    shared: Shared<State>,
}

/// The state behind a socket's lock.
pub(crate) struct State {
    /// The UDP socket's address, once it has a port.
    local: Option<SocketAddr>,
    /// The address before `connect` chose a local one.
    bound: Option<SocketAddr>,
    connected: Option<SocketAddr>,
    endpoints: Vec<Endpoint>,
    failures: Failures,
    peers: Peers,
    inbox: Inbox,
    sizes: Sizes,
    receive_timeout: Option<Duration>,
    send_timeout: Option<Duration>,
    /// Whether each half is open.
    reads: bool,
    writes: bool,
    closed: bool,
    /// The network's error for a sent datagram.
    error: Option<Errno>,
}

impl Datagram {
    pub(crate) fn new(domain: Domain) -> Result<Arc<Self>, Error> {
        let udp = Udp::new(domain)?;
        let shared = Shared::new(State {
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
        })?;
        Ok(Arc::new_cyclic(|this| Self {
            this: this.clone(),
            udp,
            domain,
            shared,
        }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.udp.fd()
    }
}

impl Deref for Datagram {
    type Target = Shared<State>;

    fn deref(&self) -> &Shared<State> {
        &self.shared
    }
}

impl Awaited for State {
    fn progress(&mut self, mut drive: impl FnMut(*const Nic) -> bool) -> bool {
        let mut changed = false;
        for place in 0..self.endpoints.len() {
            let mut drive = drive(self.endpoints[place].nic());
            for _ in 0..MAX_TURN {
                let Some(event) = self.endpoints[place].next(drive) else {
                    break;
                };
                self.handle(place, event);
                (changed, drive) = (true, false);
            }
        }
        changed
    }

    fn arm(&mut self) {
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
}

impl State {
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
            return self.endpoints[endpoint].repost_receive(slot);
        }
        let place = Place::Receive {
            endpoint,
            slot,
            start,
        };
        self.inbox.push_receive(Arrived { source, len, place });
    }

    /// Whether the program receives datagrams from this peer.
    fn takes_from(&self, source: SocketAddr) -> bool {
        self.reads && self.connected.is_none_or(|connected| connected == source)
    }

    /// The index of the endpoint at a local address, created if there is none.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if no device has the address; others if memory or descriptors run out.
    fn endpoint_at(&mut self, local: SocketAddr) -> Result<usize, Error> {
        let at = |each: &Endpoint| each.local().ip() == local.ip();
        let place = match self.endpoints.iter().position(at) {
            Some(place) if !self.endpoints[place].is_broken() => return Ok(place),
            Some(broken) => broken,
            None if self.endpoints.len() == MAX_ENDPOINTS => {
                let what =
                    format!("the socket already uses the maximum of {MAX_ENDPOINTS} addresses");
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
