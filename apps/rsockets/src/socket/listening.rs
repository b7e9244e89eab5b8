//! `listen` and `accept`.

use super::connecting::{SHUT, connection_error, for_each_connecting};
use super::route::connect_options;
use super::*;
use crate::error::is_shortage;
use crate::nic::nics;
use crate::wire::ConnectData;
use nix::sys::resource::{Resource, getrlimit};
use roce_verbs::cm::{Establishing, Incoming, Listener};
use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;

/// A listener uses at most 1 / `PART_OF_DESCRIPTORS` of the process's descriptors for half-open
/// connections, and as many for confirmed connections that the program has not accepted. Each
/// connection has two descriptors.
const PART_OF_DESCRIPTORS: u64 = 4;

/// Maximum number of half-open connections, and of confirmed ones, regardless of the descriptor limit.
const MAX_UNACCEPTED: u64 = 256;

/// How long a half-open connection is kept before a new request may evict it. The peer confirms when
/// its application thread runs, and one of the REPs that follow 1, 2 and 4 timeouts of 1.6 s after the
/// first recovers a lost REP or RTU.
const GRACE: Duration = Duration::from_secs(7);

/// The state of a listening socket.
///
/// A connection is confirmed by the RTU, as TCP's is by the third segment, because the source address
/// of a REQ can be forged. Data do not confirm it: the sender of the REQ chooses their first PSN, so a
/// forger needs to guess only 17 bits of a QPN.
pub(super) struct Listening {
    port: u16,
    listeners: Vec<(Arc<Nic>, Listener)>,
    /// Connections that the peers have not confirmed, oldest first.
    half_open: VecDeque<HalfOpen>,
    /// Connections for `accept`, oldest first.
    confirmed: VecDeque<Confirmed>,
    /// Maximum number of half-open connections, and of confirmed ones.
    limit: usize,
    /// Maximum number of confirmed connections: the program's backlog, clamped to `limit`.
    backlog: usize,
    /// Why a connection could not be created. No further request is answered until `accept` has
    /// returned this error.
    failed: Option<Error>,
    /// Whether further requests are refused.
    is_shut: bool,
}

/// A connection whose request this end has answered and the peer has not confirmed.
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
    /// `listen`. A socket at an unspecified address listens on all devices. A second call changes the
    /// backlog.
    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Error> {
        let is_bound = self.state.lock().claim.is_some();
        if !is_bound {
            self.bind(SocketAddr::new(self.domain.unspecified(), 0))?;
        }
        let mut state = self.state.lock();
        match &mut state.phase {
            Phase::Listening(listening) => {
                listening.set_backlog(backlog);
                return Ok(());
            }
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
        let mut listening = Listening::new(claim.port(), listeners);
        listening.set_backlog(backlog);
        state.phase = Phase::Listening(Box::new(listening));
        self.wake_sleepers();
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
                return match listening.failed.take() {
                    Some(error) => Err(error),
                    None if listening.is_drained() => Err(Errno::EINVAL.into()),
                    None => Ok(None),
                };
            }
            // If this runs out of descriptors, the connection stays in the backlog, as with TCP.
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
        accepted.start_keepalive();
        Ok(accepted)
    }
}

impl Listening {
    fn new(port: u16, listeners: Vec<(Arc<Nic>, Listener)>) -> Self {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let limit = descriptors / PART_OF_DESCRIPTORS / 2;
        let limit = limit.clamp(1, MAX_UNACCEPTED) as usize;
        Self {
            port,
            listeners,
            half_open: VecDeque::new(),
            confirmed: VecDeque::new(),
            limit,
            backlog: limit,
            failed: None,
            is_shut: false,
        }
    }

    /// `shutdown`: refuses all further requests immediately. Connections that were answered before can
    /// still be accepted, since their peers may have sent data.
    pub(super) fn refuse_requests(&mut self) {
        self.is_shut = true;
    }

    /// Whether there is nothing left to accept after a shutdown.
    fn is_drained(&self) -> bool {
        self.is_shut && self.half_open.is_empty() && self.confirmed.is_empty()
    }

    /// Sets the maximum number of confirmed connections: one more than `backlog`, as with TCP. As with
    /// `rdma_listen`, a `backlog` that is not positive selects the maximum.
    fn set_backlog(&mut self, backlog: i32) {
        self.backlog = match usize::try_from(backlog) {
            Ok(backlog @ 1..) => (backlog + 1).min(self.limit),
            _ => self.limit,
        };
    }

    /// Answers requests and collects confirmed connections. Returns whether there were any.
    pub(super) fn progress(&mut self, sizes: &Sizes, now: Instant) -> bool {
        if !self.half_open.is_empty() {
            // The peer may be another socket of the thread that waits here.
            for_each_connecting(|socket| socket.try_progress_connect());
        }
        let confirmed = self.take_confirmed();
        self.answer_requests(sizes, now) || confirmed
    }

    fn take_confirmed(&mut self) -> bool {
        let count = self.half_open.len();
        for half_open in std::mem::take(&mut self.half_open) {
            match half_open.connecting.check() {
                Ok(Establishing::Pending(connecting)) => self.half_open.push_back(HalfOpen {
                    connecting,
                    ..half_open
                }),
                Ok(Establishing::Established(connection)) => {
                    let (endpoint, names) = (half_open.endpoint, half_open.names);
                    let stream = Stream::new(connection, endpoint, half_open.peer);
                    self.confirmed.push_back(Confirmed { stream, names });
                }
                // The peer has given up or does not answer.
                Err(_) => {}
            }
        }
        self.half_open.len() < count
    }

    fn answer_requests(&mut self, sizes: &Sizes, now: Instant) -> bool {
        let mut any = false;
        while self.has_request() && (self.is_shut || self.make_room(now)) {
            any = true;
            let mut requests = self.listeners.iter();
            let request = requests.find_map(|(nic, from)| Some((nic, from.try_accept()?)));
            let Some((nic, incoming)) = request else {
                break;
            };
            if self.is_shut {
                // Best effort: the peer may have given up.
                let _ = incoming.reject(SHUT);
                continue;
            }
            match answer_request(nic, incoming, self.port, sizes, now) {
                Ok(half_open) => self.half_open.push_back(half_open),
                Err(error) if is_shortage(error.errno()) => self.failed = Some(error),
                // Dropping the request has rejected it. Other requests are not affected.
                Err(_) => {}
            }
        }
        any
    }

    fn has_request(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|(_, listener)| listener.has_request())
    }

    /// Whether no request is answered until the program calls `accept`.
    fn waits_for_accept(&self) -> bool {
        !self.is_shut && (self.failed.is_some() || self.confirmed.len() >= self.backlog)
    }

    fn is_full(&self) -> bool {
        !self.is_shut && self.half_open.len() >= self.limit
    }

    /// The half-open connection to evict next, and the time from which it may be evicted: the oldest
    /// connection of the address that has the most.
    fn find_evictable(&self) -> Option<(usize, Instant)> {
        let mut of_address = HashMap::new();
        for half_open in &self.half_open {
            *of_address.entry(half_open.names.remote.ip()).or_insert(0) += 1;
        }
        let oldest_first = self.half_open.iter().enumerate();
        // `max_by_key` returns the last maximum, which is the oldest in this order.
        let (index, chosen) = oldest_first
            .rev()
            .max_by_key(|(_, half_open)| of_address[&half_open.names.remote.ip()])?;
        Some((index, chosen.since + GRACE))
    }

    /// Whether a request may be answered now. Evicts a half-open connection if necessary, so that senders
    /// that never confirm cannot lock out others. While there is no room, a request waits, and its sender
    /// may retransmit it.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.waits_for_accept() {
            return false;
        }
        if self.is_full()
            && let Some((index, at)) = self.find_evictable()
            && at <= now
        {
            self.half_open.remove(index);
        }
        !self.is_full()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        if self.waits_for_accept() || !self.is_full() || !self.has_request() {
            return None;
        }
        self.find_evictable().map(|(_, at)| at)
    }

    pub(super) fn descriptors(&self, mut each: impl FnMut(RawFd)) {
        // Requests that have to wait would keep the thread awake.
        let must_wait = self.waits_for_accept() || self.is_full();
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
                if let Some(fd) = socket.connecting_fd() {
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
fn answer_request(
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

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::cm::Connection;

    const ROOM: usize = 3;

    /// A socket that listens, with room for [`ROOM`] connections.
    fn listening() -> (Arc<Socket>, SocketAddr) {
        let socket = Socket::new(Domain::V4).expect("a socket");
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        socket.bind(here).expect("bound");
        socket.listen(0).expect("listens");
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
        // The peer's application may take seconds until it confirms, and a REP may be lost.
        assert!(due >= Some(now + Duration::from_secs(5)));
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

    #[test]
    fn the_oldest_of_the_greediest_address_makes_room() {
        let (socket, at) = listening();
        let asked: Vec<_> = (0..ROOM).map(|_| ask(at)).collect();
        let now = Instant::now();
        let sizes = configuration().sizes;
        while look(&socket, |listening| listening.half_open.len()) < ROOM {
            look(&socket, |listening| listening.progress(&sizes, now));
        }
        look(&socket, |listening| {
            let peers = [9, 7, 7].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
            for (number, peer) in peers.into_iter().enumerate() {
                let half_open = &mut listening.half_open[number];
                half_open.names.remote = peer;
                half_open.since = now + Duration::from_secs(number as u64);
            }
            let second = now + Duration::from_secs(1);
            assert_eq!(listening.find_evictable(), Some((1, second + GRACE)));
            // The oldest of another address stays, although its time is over.
            assert!(!listening.make_room(now + GRACE));
            assert!(listening.make_room(second + GRACE));
            assert_eq!(listening.half_open[0].names.remote, peers[0]);
        });
        drop(asked);
        socket.close();
    }

    /// The end of an attempt to connect to `socket`.
    fn established(mut connecting: Connecting, socket: &Socket) -> Result<Connection, Errno> {
        let sizes = configuration().sizes;
        loop {
            look(socket, |listening| {
                listening.progress(&sizes, Instant::now())
            });
            match connecting.check() {
                Ok(Establishing::Pending(still)) => connecting = still,
                Ok(Establishing::Established(connection)) => return Ok(connection),
                Err(error) => return Err(connection_error(error).errno()),
            }
        }
    }

    #[test]
    fn a_listener_that_is_shut_refuses_requests_at_once() {
        let (socket, at) = listening();
        let (before, _endpoint) = ask(at);
        let sizes = configuration().sizes;
        while look(&socket, |listening| listening.half_open.is_empty()) {
            look(&socket, |listening| {
                listening.progress(&sizes, Instant::now())
            });
        }
        // As with TCP, this changes nothing.
        socket.shut_down(Shutdown::Writes).expect("it listens");
        assert!(!look(&socket, |listening| listening.is_shut));
        socket.shut_down(Shutdown::Reads).expect("it listens");
        let (after, _endpoint) = ask(at);
        let refused = established(after, &socket).err();
        assert_eq!(refused, Some(Errno::EPROTONOSUPPORT));
        // The connections that it has agreed to can be accepted.
        let _connection = established(before, &socket).expect("agreed");
        let over = loop {
            match socket.accept().map_err(|error| error.errno()) {
                Err(Errno::EAGAIN) => {}
                Ok(accepted) => {
                    accepted.close();
                    break socket.accept();
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(over.err().map(|error| error.errno()), Some(Errno::EINVAL));
        socket.close();
    }

    /// The limits at which no further request is answered until the program accepts.
    #[test]
    fn the_programs_backlog_counts_within_the_limit() {
        let (socket, _) = listening();
        for (asked, backlog) in [
            (1, 2),
            (ROOM as i32, ROOM),
            (i32::MAX, ROOM),
            (0, ROOM),
            (-1, ROOM),
        ] {
            socket.listen(asked).expect("it listens already");
            let got = look(&socket, |listening| listening.backlog);
            assert_eq!(got, backlog, "{asked}");
        }
        socket.close();
    }
}
