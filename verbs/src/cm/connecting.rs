//! Connections that are being established.

use super::link::{CmConnection, no_descriptor};
use super::{Connection, ConnectionError, routes};
use crate::context::Context;
use crate::device::source_address_for;
use crate::error::ConnectError;
use crate::qp::{ConnectOptions, QueuePair};
use roce_cm::{ConnectRequest, Event, Path, PortSpace, PrivateBytes, ServiceId};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A connection that one end has asked for and the other has not confirmed yet: for programs that
/// wait for several things at once. [`Connection::start`] and
/// [`Incoming::start_accept`](super::Incoming::start_accept) return it.
///
/// Its descriptor ([`AsFd`]) is readable when [`Connecting::check`] has something to do. Dropping
/// it gives the connection up.
#[derive(Debug)]
pub struct Connecting {
    pub(super) cm: CmConnection,
    pub(super) qp: Arc<QueuePair>,
    pub(super) role: Role,
}

#[derive(Debug)]
pub(super) enum Role {
    /// It has asked, with these options, and waits for the answer.
    Active(ConnectOptions),
    /// It has accepted, and waits until the peer is ready. These private data came with the
    /// request.
    Passive(PrivateBytes),
}

/// How far a connection is.
#[derive(Debug)]
pub enum Establishing {
    /// The peer has not answered yet.
    Pending(Connecting),
    /// Both ends are ready.
    Established(Connection),
}

impl Connecting {
    /// Its QP. That of an end that has accepted may send already.
    pub fn qp(&self) -> &QueuePair {
        &self.qp
    }

    /// Looks whether the peer has answered, without waiting.
    ///
    /// # Errors
    /// If the peer refuses or does not answer, or the QP can't be connected. The connection is then
    /// over.
    pub fn check(self) -> Result<Establishing, ConnectionError> {
        match self.cm.try_next()? {
            None => Ok(Establishing::Pending(self)),
            Some(event) => self.finish(event).map(Establishing::Established),
        }
    }

    /// Waits until the peer has answered. The manager gives up requests that nobody answers, so it
    /// does not wait for ever.
    ///
    /// # Errors
    /// As for [`Connecting::check`].
    pub fn wait(self) -> Result<Connection, ConnectionError> {
        let mut pending = self;
        loop {
            match pending.check()? {
                Establishing::Established(connection) => return Ok(connection),
                Establishing::Pending(still) => pending = still,
            }
            pending.cm.wait_until_readable();
        }
    }

    fn finish(self, event: Event) -> Result<Connection, ConnectionError> {
        let Self { cm, qp, role } = self;
        let private = match (role, event) {
            (Role::Active(options), Event::Replied { reply, .. }) => {
                qp.connect_with(&cm.path, &reply, &options)?;
                cm.manager.with(|agent, now| agent.ready(now, cm.id, &[]))?;
                reply.private
            }
            (Role::Passive(private), Event::Established { .. }) => private,
            _ => return Err(ConnectionError::Ended),
        };
        Ok(Connection::new(cm, qp, private))
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cm.events.as_fd()
    }
}

impl Connection {
    /// Connects `qp`, which must be in RESET or INIT, with a QP of the program that listens at
    /// `remote`. That program gets `private`, at most 56 bytes. Returns when the peer has accepted,
    /// or fails: after about 26 s if the peer does not answer, within two seconds if its host answers
    /// that nothing there has RoCEv2's port, and as soon as ARP or neighbour discovery has failed.
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
        let role = Role::Active(*options);
        Ok(Connecting { cm, qp, role })
    }
}

/// The device's address for packets to `remote`: the one that the system's routes choose, if the
/// device has it, or else the device's first address of the same kind (IPv4, IPv6, link-local).
fn local_address_for(context: &Context, remote: IpAddr) -> Result<IpAddr, ConnectError> {
    let known: Vec<IpAddr> = context.gids().iter().map(|entry| entry.gid.ip()).collect();
    if let Ok(routed) = source_address_for(SocketAddr::new(remote, 0))
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
