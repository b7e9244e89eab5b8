//! Established connections.

use super::ConnectionError;
use super::connecting::{CmConnection, Connecting};
use super::listener::no_descriptor;
use super::routes;
use crate::context::Context;
use crate::device::source_address_for;
use crate::error::ConnectError;
use crate::qp::{ConnectOptions, QueuePair};
use roce_cm::{ConnectRequest, Event, Path, PortSpace, PrivateBytes, ServiceId};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        let local = local_address_for(qp.context(), remote.ip())?;
        Self::start(qp, SocketAddr::new(local, 0), remote, options, private)?.wait()
    }

    /// As [`Connection::connect`], without waiting for the peer. `local` is the address of the
    /// device from which the QP sends, and the port that the peer is told, 0 if there is none.
    ///
    /// # Errors
    /// If the device does not have the address, the QP can't be connected, or `private` is too
    /// long.
    pub fn start(
        qp: QueuePair,
        local: SocketAddr,
        remote: SocketAddr,
        options: &ConnectOptions,
        private: &[u8],
    ) -> Result<Connecting, ConnectionError> {
        let manager = qp.context().connection_manager()?;
        let path = Path {
            local: local.ip(),
            remote: remote.ip(),
        };
        manager.activate(path.local)?;
        let service = ServiceId::ip(PortSpace::Tcp, remote.port());
        let request = ConnectRequest {
            source_port: local.port(),
            private: private.to_vec(),
            ..qp.connect_request(service, options)?
        };
        let qp = Arc::new(qp);
        let events = routes::new_events().map_err(no_descriptor)?;
        let id = manager.core.routes().connection(&qp, &events, || {
            manager.with(|agent, now| agent.connect(now, path, &request))
        })?;
        manager.core.inbox().set_has_sink();
        let cm = CmConnection {
            manager,
            id,
            path,
            events,
        };
        Ok(Connecting::active(cm, qp, *options))
    }

    pub(super) fn new(cm: CmConnection, qp: Arc<QueuePair>, private: PrivateBytes) -> Self {
        Self { cm, qp, private }
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
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.cm.wait(left) {
                Some(Event::DisconnectRequested { .. } | Event::Disconnected { .. }) => {
                    return true;
                }
                Some(_) => {}
                None if self.cm.is_over() => return true,
                None if left.is_zero() => return false,
                None => {}
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
