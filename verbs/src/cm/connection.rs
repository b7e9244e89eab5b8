//! Connections with an interface like that of sockets: a listener, and connections that own their
//! QPs.

use super::{ConnectionError, ConnectionManager, PortClaim, routes::PendingRequest};
use crate::context::Context;
use crate::device::source_address_for;
use crate::error::ConnectError;
use crate::qp::{ConnectOptions, QueuePair};
use parking_lot::Mutex;
use roce_cm::{
    Acceptance, Addresses, ConnectRequest, ConnectionId, Event, ListenerId, Path, PortSpace,
    PrivateBytes, RejectReason, Request, ServiceId,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The maximum number of requests that wait for [`Listener::accept`]. Further requests are dropped,
/// and peers retransmit them.
const BACKLOG: usize = 128;

/// Accepts connections at an address and port, like a TCP listener. Its ports are those of
/// `RDMA_PS_TCP` in librdmacm, so programs that call `rdma_connect`, over any RoCE device, can
/// connect to it.
///
/// ```no_run
/// use roce_verbs::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = Device::named("roce_eth0")?.open()?;
/// let pd = context.alloc_pd();
/// let cq = context.create_cq(64);
///
/// let listener = Listener::bind(&context, "0.0.0.0:7471".parse()?)?;
/// let incoming = listener.accept();
/// let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
/// let connection = incoming.accept(qp, &ConnectOptions::default(), b"welcome")?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping the listener refuses the requests that wait for [`Listener::accept`]. Connections stay.
#[derive(Debug)]
pub struct Listener {
    manager: Arc<ConnectionManager>,
    claim: PortClaim,
    id: ListenerId,
    requests: Mutex<Receiver<PendingRequest>>,
}

impl Listener {
    /// Listens at an address of the device, or at all addresses of a family (`0.0.0.0`, `[::]`),
    /// also those that the device gets later. If the port is 0, the system chooses one.
    ///
    /// # Errors
    /// If the port is in use, or the device does not have the address.
    pub fn bind(context: &Context, local: SocketAddr) -> Result<Self, ConnectionError> {
        let manager = context.connection_manager()?;
        let addresses = match local.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Addresses::V4,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Addresses::V6,
            ip => Addresses::One(ip),
        };
        let claim = manager.claim_port(PortSpace::Tcp, addresses, local.port())?;
        let routes = manager.core.routes();
        let (id, requests) = routes.listener(|| manager.listen(&claim, BACKLOG))?;
        manager.core.inbox().set_has_sink();
        Ok(Self {
            manager,
            claim,
            id,
            requests: Mutex::new(requests),
        })
    }

    /// The port that it listens at. If [`Listener::bind`] was given port 0, this is the one that
    /// the system chose.
    pub fn port(&self) -> u16 {
        self.claim.port()
    }

    /// Waits for a connection request.
    pub fn accept(&self) -> Incoming {
        loop {
            if let Some(incoming) = self.accept_within(Duration::from_secs(3600)) {
                return incoming;
            }
        }
    }

    /// Waits at most `timeout` for a connection request.
    pub fn accept_within(&self, timeout: Duration) -> Option<Incoming> {
        let request = self.requests.lock().recv_timeout(timeout).ok()?;
        let id = request.connection;
        self.manager.with(|agent, _| agent.leave_backlog(id));
        Some(Incoming {
            cm: CmConnection {
                manager: Arc::clone(&self.manager),
                id,
                path: request.path,
                events: Mutex::new(request.events),
            },
            request: request.request,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.manager.stop_listening(self.id);
        let routes = self.manager.core.routes();
        routes.forget_listener(self.id);
        for request in self.requests.get_mut().try_iter() {
            routes.forget_connection(request.connection);
        }
    }
}

/// A connection as the connection manager knows it, without the QP. Dropping it notifies the peer.
#[derive(Debug)]
struct CmConnection {
    manager: Arc<ConnectionManager>,
    id: ConnectionId,
    path: Path,
    events: Mutex<Receiver<Event>>,
}

impl CmConnection {
    fn next(&self) -> Result<Event, ConnectionError> {
        // The manager ends requests that nobody answers, so an event always comes.
        let next = self.events.lock().recv();
        match next.map_err(|_| ConnectionError::Ended)? {
            Event::Rejected {
                reason, private, ..
            } => Err(ConnectionError::Rejected { reason, private }),
            Event::Unreachable { .. } => Err(ConnectionError::Unreachable(self.path.remote)),
            event => Ok(event),
        }
    }
}

impl Drop for CmConnection {
    fn drop(&mut self) {
        let Self { manager, id, .. } = self;
        manager.with(|agent, now| agent.forget(now, *id));
        manager.core.routes().forget_connection(*id);
    }
}

/// A request that a [`Listener`] has received. The peer waits for [`Incoming::accept`]. Dropping
/// this refuses the request.
#[derive(Debug)]
pub struct Incoming {
    cm: CmConnection,
    request: Request,
}

impl Incoming {
    /// What the peer asks for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The peer's private data, including the zeros that pad its message.
    pub fn private(&self) -> &PrivateBytes {
        &self.request.private
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        self.cm.path.remote
    }

    /// Connects `qp`, which must be in RESET or INIT, with the peer, and waits until the peer is
    /// ready. The peer gets `private`, at most 196 bytes. Receives for the peer's first messages
    /// must be posted before this call, in INIT.
    ///
    /// # Errors
    /// If the QP can't be connected, `private` is too long, or the peer gives up. The connection is
    /// then over.
    pub fn accept(
        self,
        qp: QueuePair,
        options: &ConnectOptions,
        private: &[u8],
    ) -> Result<Connection, ConnectionError> {
        let Self { cm, request } = self;
        let qp = Arc::new(qp);
        let acceptance = Acceptance {
            private: private.to_vec(),
            ..qp.accept_with(&cm.path, &request, options)?
        };
        let manager = &cm.manager;
        manager.core.routes().set_qp(cm.id, &qp);
        manager.with(|agent, now| agent.accept(now, cm.id, &acceptance))?;
        match cm.next()? {
            Event::Established { .. } => Ok(Connection {
                cm,
                qp,
                private: request.private,
            }),
            _ => Err(ConnectionError::Ended),
        }
    }

    /// Refuses the request. The peer gets `private`, at most 148 bytes.
    ///
    /// # Errors
    /// If the peer has given up meanwhile, or the private data are too long.
    pub fn reject(self, private: &[u8]) -> Result<(), ConnectionError> {
        let CmConnection { manager, id, .. } = &self.cm;
        let reason = RejectReason::CONSUMER;
        manager.with(|agent, now| agent.reject(now, *id, reason, private))?;
        Ok(())
    }
}

/// A QP that communication management has connected with a peer's QP.
///
/// It derefs to its [`QueuePair`]. When the peer disconnects, or its process ends, the QP goes to
/// ERR: outstanding requests complete with
/// [`WcStatus::WorkRequestFlushed`](crate::WcStatus::WorkRequestFlushed). Dropping the connection
/// notifies the peer and destroys the QP.
///
/// ```no_run
/// use roce_verbs::prelude::*;
///
/// # fn connect(pd: &ProtectionDomain, cq: &CompletionQueue)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let qp = pd.create_qp(cq, cq, &QpOptions::default())?;
/// let server = "10.0.0.1:7471".parse()?;
/// let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"hello")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    cm: CmConnection,
    qp: Arc<QueuePair>,
    private: PrivateBytes,
}

impl Connection {
    /// Connects `qp`, which must be in RESET or INIT, with a QP of the program that listens at
    /// `remote`. That program gets `private`, at most 56 bytes. Returns when the peer has accepted,
    /// or fails after about 26 s if the peer does not answer.
    ///
    /// # Errors
    /// If no program listens there, the peer refuses or does not answer, the QP can't be connected,
    /// or `private` is too long.
    pub fn connect(
        qp: QueuePair,
        remote: SocketAddr,
        options: &ConnectOptions,
        private: &[u8],
    ) -> Result<Self, ConnectionError> {
        let context = qp.context().clone();
        let manager = context.connection_manager()?;
        let path = Path {
            local: local_address_for(&context, remote.ip())?,
            remote: remote.ip(),
        };
        manager.activate(path.local)?;
        let service = ServiceId::ip(PortSpace::Tcp, remote.port());
        let request = ConnectRequest {
            private: private.to_vec(),
            ..qp.connect_request(service, options)?
        };
        let qp = Arc::new(qp);
        let routes = manager.core.routes();
        let (id, events) = routes.connection(&qp, || {
            manager.with(|agent, now| agent.connect(now, path, &request))
        })?;
        manager.core.inbox().set_has_sink();
        let cm = CmConnection {
            manager: Arc::clone(&manager),
            id,
            path,
            events: Mutex::new(events),
        };
        let Event::Replied { reply, .. } = cm.next()? else {
            return Err(ConnectionError::Ended);
        };
        qp.connect_with(&path, &reply, options)?;
        manager.with(|agent, now| agent.ready(now, id, &[]))?;
        Ok(Self {
            cm,
            qp,
            private: reply.private,
        })
    }

    /// The private data that the peer sent with its request or answer, including the zeros that pad
    /// its message.
    pub fn private(&self) -> &PrivateBytes {
        &self.private
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        self.cm.path.remote
    }

    /// Ends the connection, and waits at most `timeout` for the peer to agree. Returns whether the
    /// peer agreed or had already ended the connection. A peer that uses this API agrees at once;
    /// one that uses librdmacm agrees when its program calls `rdma_disconnect`. The peer is
    /// notified in any case.
    pub fn disconnect(self, timeout: Duration) -> bool {
        let CmConnection { manager, id, .. } = &self.cm;
        // This fails only if the peer has ended the connection.
        let requested = manager.with(|agent, now| agent.disconnect(now, *id, &[]));
        requested.is_err() || self.wait_for_end(timeout)
    }

    /// Waits at most `timeout` for the peer to end the connection, and returns whether it did.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let events = self.cm.events.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::DisconnectRequested { .. } | Event::Disconnected { .. }) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                // The last event has been taken.
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }
}

impl Deref for Connection {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.qp
    }
}

/// The device's address for packets to `remote`: the one that the system's routes choose, if the
/// device has it, or else the device's first address of the same kind (IPv4, IPv6, link-local).
fn local_address_for(context: &Context, remote: IpAddr) -> Result<IpAddr, ConnectError> {
    let known: Vec<IpAddr> = context.gids().iter().map(|entry| entry.gid.ip()).collect();
    if let Ok(routed) = source_address_for(remote)
        && known.contains(&routed)
    {
        return Ok(routed);
    }
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut fitting = known.iter().filter(|ip| ip.is_ipv4() == remote.is_ipv4());
    let found = fitting.find(|ip| is_link_local(ip) == is_link_local(&remote));
    found
        .copied()
        .ok_or(ConnectError::NoAddressFor { remote, known })
}
