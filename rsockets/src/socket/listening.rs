//! Listening.

use super::connecting::{connection_error, for_each_connecting};
use super::route::connect_options;
use super::*;
use crate::error::is_shortage;
use crate::nic::nics;
use crate::wire::ConnectData;
use nix::sys::resource::{Resource, getrlimit};
use roce_verbs::cm::{Establishing, Incoming, Listener};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

/// A listener uses at most this part of the descriptors that the process may have for connections
/// that the program has not accepted. Each of them has two.
const PART_OF_DESCRIPTORS: u64 = 8;

/// The most connections that a program has not accepted, however many descriptors it may have.
const MAX_UNACCEPTED: u64 = 128;

/// The time after which a half-open connection makes room for the next request. Confirmation takes a
/// round trip.
const GRACE: Duration = Duration::from_millis(100);

/// What a socket that listens has.
///
/// A connection counts from the RTU on, as with TCP from the third segment on: the source address of
/// a REQ can be forged. Data are no confirmation: the sender of a REQ chooses the PSN at which they
/// begin, so whoever forges them guesses only 17 bits of a QPN.
pub(super) struct Listening {
    port: u16,
    listeners: Vec<(Arc<Nic>, Listener)>,
    /// Connections that the peers have not confirmed. Oldest first.
    half_open: VecDeque<HalfOpen>,
    /// Connections for `accept`. Oldest first.
    confirmed: VecDeque<Confirmed>,
    /// The most connections in both queues together.
    limit: usize,
    /// Why this process has no room for a connection. No further request is taken until `accept` has
    /// said so.
    failed: Option<Error>,
}

/// A connection whose request this end has answered.
struct HalfOpen {
    connecting: Connecting,
    endpoint: Endpoint,
    peer: ConnectData,
    names: Names,
    since: Instant,
}

struct Confirmed {
    stream: Stream,
    names: Names,
}

#[derive(Clone, Copy)]
struct Names {
    local: SocketAddr,
    remote: SocketAddr,
}

impl Socket {
    /// `listen`. A socket at an unspecified address listens on all devices.
    pub(crate) fn listen(&self) -> Result<(), Error> {
        let is_bound = self.state.lock().claim.is_some();
        if !is_bound {
            let any = match self.domain {
                Domain::V4 => Ipv4Addr::UNSPECIFIED.into(),
                Domain::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            self.bind(SocketAddr::new(any, 0))?;
        }
        let mut state = self.state.lock();
        match state.phase {
            Phase::Listening(_) => return Ok(()),
            Phase::Idle => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        let (Some(claim), Some(local)) = (state.claim.clone(), state.local) else {
            return Err(Errno::EINVAL.into());
        };
        let nics = if local.ip().is_unspecified() {
            nics().all()?
        } else {
            vec![nics().with_address(local)?]
        };
        let mut listeners = Vec::new();
        let mut failed = Error::new(Errno::ENODEV, "there is no RoCE device");
        for nic in nics {
            match Listener::with_claim(&nic.context, &claim).or_errno(Errno::ENODEV) {
                Ok(listener) => listeners.push((nic, listener)),
                Err(error) if is_shortage(error.errno()) => return Err(error),
                Err(error) => failed = error,
            }
        }
        if listeners.is_empty() {
            return Err(failed);
        }
        state.phase = Phase::Listening(Box::new(Listening::new(claim.port(), listeners)));
        self.announce();
        Ok(())
    }

    /// `accept`: the new socket.
    pub(crate) fn accept(&self) -> Result<Arc<Self>, Error> {
        let limit = self.state.lock().settings.receive_timeout;
        let accepted = self.wait(self.patience(false, limit), |state| {
            let Phase::Listening(listening) = &mut state.phase else {
                return Err(Errno::EINVAL.into());
            };
            if listening.confirmed.is_empty() {
                return listening.failed.take().map_or(Ok(None), Err);
            }
            // Without a descriptor for it, the connection waits, as with TCP.
            let socket = Self::with(self.domain, Phase::Idle, state.sizes)?;
            let Some(Confirmed { stream, names }) = listening.confirmed.pop_front() else {
                return Ok(None);
            };
            {
                let mut accepted = socket.state.lock();
                accepted.phase = Phase::Stream(Box::new(stream));
                (accepted.local, accepted.remote) = (Some(names.local), Some(names.remote));
                accepted.settings = state.settings.clone();
            }
            Ok(Some(socket))
        })?;
        accepted.watch_peer();
        Ok(accepted)
    }
}

impl Listening {
    fn new(port: u16, listeners: Vec<(Arc<Nic>, Listener)>) -> Self {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let limit = descriptors / PART_OF_DESCRIPTORS / 2;
        Self {
            port,
            listeners,
            half_open: VecDeque::new(),
            confirmed: VecDeque::new(),
            limit: limit.clamp(1, MAX_UNACCEPTED) as usize,
            failed: None,
        }
    }

    /// Answers requests, and looks which peers have confirmed. Returns whether there was anything.
    pub(super) fn progress(&mut self, sizes: &Sizes, now: Instant) -> bool {
        if !self.half_open.is_empty() {
            // A thread may wait here for a connection that it has asked for itself.
            for_each_connecting(|socket| socket.go_on_if_connecting());
        }
        let confirmed = self.take_confirmed();
        self.answer_requests(sizes, now) || confirmed
    }

    fn take_confirmed(&mut self) -> bool {
        let count = self.half_open.len();
        for half_open in std::mem::take(&mut self.half_open) {
            let HalfOpen {
                connecting,
                endpoint,
                peer,
                names,
                since,
            } = half_open;
            match connecting.check() {
                Ok(Establishing::Pending(connecting)) => self.half_open.push_back(HalfOpen {
                    connecting,
                    endpoint,
                    peer,
                    names,
                    since,
                }),
                Ok(Establishing::Established(connection)) => {
                    let stream = Stream::new(connection, endpoint, peer);
                    self.confirmed.push_back(Confirmed { stream, names });
                }
                // The peer has given up, or does not answer.
                Err(_) => {}
            }
        }
        self.half_open.len() < count
    }

    fn answer_requests(&mut self, sizes: &Sizes, now: Instant) -> bool {
        let mut any = false;
        while self.failed.is_none() && self.has_request() && self.make_room(now) {
            any = true;
            let mut requests = self.listeners.iter();
            let request = requests.find_map(|(nic, from)| Some((nic, from.try_accept()?)));
            let Some((nic, incoming)) = request else {
                break;
            };
            match agree(nic, incoming, self.port, sizes, now) {
                Ok(half_open) => self.half_open.push_back(half_open),
                Err(error) if is_of_this_process(error.errno()) => self.failed = Some(error),
                // Dropping the request has refused it. It says nothing about the others.
                Err(_) => {}
            }
        }
        any
    }

    fn has_request(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|(_, listener)| listener.has_request())
    }

    fn is_full(&self) -> bool {
        self.half_open.len() + self.confirmed.len() >= self.limit
    }

    /// The time from which on the oldest half-open connection makes room.
    fn gives_way(&self) -> Option<Instant> {
        self.half_open.front().map(|oldest| oldest.since + GRACE)
    }

    /// Whether there is room for a connection. Requests whose senders never confirm keep nobody out.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.is_full() && self.gives_way().is_some_and(|at| at <= now) {
            self.half_open.pop_front();
        }
        !self.is_full()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.gives_way()
            .filter(|_| self.is_full() && self.has_request())
    }

    pub(super) fn descriptors(&self, mut each: impl FnMut(RawFd)) {
        // Requests that must wait would keep the thread awake.
        let must_wait = self.failed.is_some() || self.is_full();
        if !(must_wait && self.has_request()) {
            for (_, listener) in &self.listeners {
                each(listener.as_fd().as_raw_fd());
            }
        }
        for half_open in &self.half_open {
            each(half_open.connecting.as_fd().as_raw_fd());
        }
        if !self.half_open.is_empty() {
            for_each_connecting(|socket| {
                if let Some(fd) = socket.awaited_answer() {
                    each(fd);
                }
            });
        }
    }

    pub(super) fn hand_over(&self) {
        for (nic, _) in &self.listeners {
            nic.context.hand_over();
        }
    }

    /// Whether `accept` need not wait.
    pub(super) fn is_ready(&self) -> bool {
        !self.confirmed.is_empty() || self.failed.is_some()
    }
}

/// Answers a request.
fn agree(
    nic: &Arc<Nic>,
    incoming: Incoming,
    port: u16,
    sizes: &Sizes,
    since: Instant,
) -> Result<HalfOpen, Error> {
    let peer = ConnectData::parse(incoming.private()).or_errno(Errno::EPROTO)?;
    let ip = incoming.request().ip;
    let names = Names {
        local: SocketAddr::new(incoming.local(), port),
        remote: SocketAddr::new(incoming.peer(), ip.map_or(0, |ip| ip.source_port)),
    };
    let (endpoint, qp) = Endpoint::new(nic, sizes)?;
    let private = endpoint.connect_data().encode();
    let connecting = incoming.start_accept(qp, &connect_options(None), &private);
    Ok(HalfOpen {
        connecting: connecting.map_err(connection_error)?,
        endpoint,
        peer,
        names,
        since,
    })
}

/// Whether an error means that this process has no descriptor or no memory left.
fn is_of_this_process(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 3;

    /// A socket that listens, with room for [`ROOM`] connections.
    fn listening() -> (Arc<Socket>, SocketAddr) {
        let socket = Socket::new(Domain::V4).expect("a socket");
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        socket.bind(here).expect("bound");
        socket.listen().expect("listens");
        socket.set_nonblocking(true);
        look(&socket, |listening| listening.limit = ROOM);
        let at = socket.local_name();
        (socket, at)
    }

    fn look<R>(socket: &Socket, at: impl FnOnce(&mut Listening) -> R) -> R {
        match &mut socket.state.lock().phase {
            Phase::Listening(listening) => at(listening),
            _ => panic!("it listens"),
        }
    }

    /// Asks for a connection, and never confirms it.
    fn ask(to: SocketAddr) -> (Connecting, Endpoint) {
        let local = SocketAddr::new(to.ip(), 0);
        let nic = nics().with_address(local).expect("loopback");
        let (endpoint, qp) = Endpoint::new(&nic, &configuration().sizes).expect("a QP");
        let private = endpoint.connect_data().encode();
        let options = connect_options(None);
        let asked = roce_verbs::cm::Connection::start(qp, local, to, &options, &private);
        (asked.expect("asked"), endpoint)
    }

    #[test]
    fn a_half_open_connection_makes_room_when_its_time_is_over() {
        let (socket, at) = listening();
        let asked: Vec<_> = (0..ROOM + 1).map(|_| ask(at)).collect();
        // The clock stands still: the last request waits.
        let now = Instant::now();
        let sizes = configuration().sizes;
        let mut answered = 0;
        while answered < ROOM || !look(&socket, |listening| listening.has_request()) {
            look(&socket, |listening| listening.progress(&sizes, now));
            answered = look(&socket, |listening| listening.half_open.len());
            assert!(answered <= ROOM);
        }
        let due = look(&socket, |listening| listening.due());
        assert_eq!(due, Some(now + GRACE));
        let almost = now + GRACE - Duration::from_nanos(1);
        assert!(!look(&socket, |listening| listening.progress(&sizes, almost)));
        assert!(look(&socket, |listening| listening.progress(&sizes, now + GRACE)));
        let youngest =
            |listening: &mut Listening| listening.half_open.back().map(|last| last.since);
        assert_eq!(look(&socket, youngest), Some(now + GRACE));
        let held = look(&socket, |listening| {
            (listening.half_open.len(), listening.due())
        });
        assert_eq!(held, (ROOM, None));
        drop(asked);
        socket.close();
    }
}
