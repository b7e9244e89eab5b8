//! Listeners, and the requests that they receive.

use super::connecting::{Connecting, Role};
use super::link::{CmConnection, no_descriptor};
use super::routes::{self, Requests};
use super::{Connection, ConnectionError, ConnectionManager, PortClaim};
use crate::context::Context;
use crate::qp::{ConnectOptions, QueuePair};
use roce_cm::{Acceptance, Addresses, ListenerId, PortSpace, PrivateBytes, RejectReason, Request};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

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
/// Its descriptor ([`AsFd`]) is readable while requests wait, for programs that wait for several
/// things at once. They take the requests with [`Listener::try_accept`].
///
/// Dropping the listener refuses the requests that wait for [`Listener::accept`]. Connections stay.
pub struct Listener {
    manager: Arc<ConnectionManager>,
    claim: Arc<PortClaim>,
    id: ListenerId,
    requests: Requests,
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
        Self::with_claim(context, &Arc::new(claim))
    }

    /// Listens for a port that the program has claimed. A program that listens on several devices
    /// makes a listener for each of them, with the same claim.
    ///
    /// # Errors
    /// If the device does not have the claim's address, or already listens for the claim.
    pub fn with_claim(context: &Context, claim: &Arc<PortClaim>) -> Result<Self, ConnectionError> {
        let manager = context.connection_manager()?;
        let requests = routes::new_requests().map_err(no_descriptor)?;
        let routes = manager.core.routes();
        let id = routes.listener(&requests, || manager.listen(claim, BACKLOG))?;
        manager.core.inbox().set_has_sink();
        Ok(Self {
            manager,
            claim: Arc::clone(claim),
            id,
            requests,
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
        let context = &self.manager.context;
        // If waiting fails, no request is there yet.
        let waited = self.requests.wait(timeout, || context.hand_over());
        waited.ok().flatten().map(|request| self.incoming(request))
    }

    /// Takes the oldest connection request that waits, if one does.
    pub fn try_accept(&self) -> Option<Incoming> {
        self.requests.poll().map(|request| self.incoming(request))
    }

    /// Whether a connection request waits.
    pub fn has_request(&self) -> bool {
        !self.requests.is_empty()
    }

    fn incoming(&self, request: routes::PendingRequest) -> Incoming {
        let id = request.connection;
        self.manager.with(|agent, _| agent.leave_backlog(id));
        Incoming {
            cm: CmConnection {
                manager: Arc::clone(&self.manager),
                id,
                path: request.path,
                events: request.events,
            },
            request: request.request,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.requests.as_fd()
    }
}

debug_fields!(Listener claim);

impl Drop for Listener {
    fn drop(&mut self) {
        self.manager.stop_listening(self.id);
        let routes = self.manager.core.routes();
        routes.forget_listener(self.id);
        while let Some(request) = self.requests.poll() {
            routes.forget_connection(request.connection);
        }
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
    /// The peer's request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The peer's private data, including the zeros that pad its message.
    pub fn private(&self) -> &PrivateBytes {
        &self.request.private
    }

    /// The address of this host at which the request arrived.
    pub fn local(&self) -> IpAddr {
        self.cm.path.local
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
        self.start_accept(qp, options, private)?.wait()
    }

    /// As [`Incoming::accept`], without waiting until the peer is ready. The QP may send already.
    ///
    /// # Errors
    /// If the QP can't be connected, `private` is too long, or the peer has given up.
    pub fn start_accept(
        self,
        qp: QueuePair,
        options: &ConnectOptions,
        private: &[u8],
    ) -> Result<Connecting, ConnectionError> {
        let Self { cm, request } = self;
        let qp = Arc::new(qp);
        let acceptance = Acceptance {
            private: private.to_vec(),
            ..qp.accept_with(&cm.path, &request, options)?
        };
        let manager = &cm.manager;
        manager.core.routes().set_qp(cm.id, &qp);
        manager.with(|agent, now| agent.accept(now, cm.id, &acceptance))?;
        let role = Role::Passive(request.private);
        Ok(Connecting { cm, qp, role })
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
