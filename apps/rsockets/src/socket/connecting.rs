//! `bind` and `connect`.

use super::route::connect_options;
use super::*;
use crate::nic::{canonical, nics, source_for};
use crate::wire::ConnectData;
use parking_lot::Mutex;
use roce_trust::fork::PerProcess;
use roce_verbs::cm::{Connection, ConnectionError, Establishing, PortClaimError};
use roce_verbs::roce_cm::{Addresses, PortSpace};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Weak;

/// The private data of the REJ that a listener sends after `shutdown`. It tells the peer that retrying
/// is pointless.
pub(super) const SHUT: &[u8] = b"rsocket: shut down";

/// The connecting sockets, and some that have finished.
static CONNECTING: PerProcess<Mutex<Vec<Weak<Socket>>>> = PerProcess::new();

/// Calls `each` for the connecting sockets of this process.
pub(super) fn for_each_connecting(each: impl FnMut(Arc<Socket>)) {
    let sockets: Vec<_> = {
        let mut connecting = CONNECTING.get().lock();
        connecting.retain(|socket| socket.upgrade().is_some_and(|it| it.may_be_connecting()));
        connecting.iter().filter_map(Weak::upgrade).collect()
    };
    sockets.into_iter().for_each(each);
}

impl Socket {
    /// `bind`.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Idle) || state.claim.is_some() {
            return Err(Errno::EINVAL.into());
        }
        let address = canonical(address);
        let (addresses, index) = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => (Addresses::V4, 0),
            IpAddr::V6(ip) if ip.is_unspecified() && state.settings.v6_only => (Addresses::V6, 0),
            IpAddr::V6(ip) if ip.is_unspecified() => (Addresses::All, 0),
            ip => {
                let nic = nics().with_address(address)?;
                (Addresses::One(ip), nic.context.device().interface().index)
            }
        };
        let claim = claim_port(addresses, index, address.port())?;
        state.local = Some(with_port(address, claim.port()));
        state.claim = Some(Arc::new(claim));
        Ok(())
    }

    /// `connect`.
    pub(crate) fn connect(self: &Arc<Self>, remote: SocketAddr) -> Result<(), Error> {
        {
            let mut state = self.state.lock();
            self.progress_locked(&mut state, true);
            match &state.phase {
                Phase::Idle | Phase::Failed(_) => {
                    state.start_connecting(canonical(remote))?;
                    CONNECTING.get().lock().push(Arc::downgrade(self));
                }
                Phase::Connecting(_) if self.is_nonblocking() => return Err(Errno::EALREADY.into()),
                Phase::Connecting(_) => {}
                Phase::Stream(_) => return Err(Errno::EISCONN.into()),
                Phase::Listening(_) => return Err(Errno::EINVAL.into()),
                Phase::Closed => return Err(Errno::EBADF.into()),
            }
        }
        let limit = self.state.lock().settings.send_timeout;
        let connected = self.wait(self.patience(false, limit), |state| match &state.phase {
            Phase::Connecting(_) => Ok(None),
            Phase::Failed(errno) => {
                let errno = *errno;
                state.error = None;
                Err(errno.into())
            }
            _ => Ok(Some(())),
        });
        connected.map_err(|error| match error.errno() {
            Errno::EAGAIN => Errno::EINPROGRESS.into(),
            _ => error,
        })
    }
}

impl Socket {
    /// `false` only if the socket is certainly not connecting.
    fn may_be_connecting(&self) -> bool {
        self.state
            .try_lock()
            .is_none_or(|state| matches!(state.phase, Phase::Connecting(_)))
    }

    /// Advances a connection attempt, unless another thread holds the lock and does so.
    pub(super) fn try_progress_connect(&self) {
        if let Some(mut state) = self.state.try_lock()
            && matches!(state.phase, Phase::Connecting(_))
        {
            self.progress_locked(&mut state, false);
        }
    }

    /// The descriptor that becomes readable when the peer answers the connection attempt.
    pub(super) fn connecting_fd(&self) -> Option<RawFd> {
        match &self.state.try_lock()?.phase {
            Phase::Connecting(connecting) => Some(connecting.0.as_fd().as_raw_fd()),
            _ => None,
        }
    }
}

impl State {
    fn start_connecting(&mut self, remote: SocketAddr) -> Result<(), Error> {
        let route = self.settings.route;
        if let Some(route) = route.filter(|route| route.destination != remote.ip()) {
            let what = format!(
                "RDMA_ROUTE set a path to {}, but the socket connects to {}",
                route.destination,
                remote.ip()
            );
            return Err(Error::new(Errno::EINVAL, what));
        }
        let bound = self.local.filter(|local| !local.ip().is_unspecified());
        let port = self.local.map_or(0, |local| local.port());
        let local = match (bound, route) {
            (Some(local), _) => local,
            (None, Some(route)) => SocketAddr::new(route.source, port),
            (None, None) => with_port(source_for(remote)?, port),
        };
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let remote = match remote.ip().is_unspecified() {
            // As a destination, the unspecified address means this host.
            true => SocketAddr::new(local.ip(), remote.port()),
            false => remote,
        };
        let nic = nics().with_address(local)?;
        if self.claim.is_none() {
            let index = nic.context.device().interface().index;
            self.claim = Some(Arc::new(claim_port(Addresses::One(local.ip()), index, 0)?));
        }
        let port = self.claim.as_ref().map_or(0, |claim| claim.port());
        let local = with_port(local, port);
        let (endpoint, qp) = Endpoint::new(&nic, &self.sizes)?;
        let private = endpoint.connect_data().encode();
        let connecting = Connection::start(
            qp,
            local,
            remote,
            &connect_options(route.as_ref()),
            &private,
        );
        let connecting = connecting.map_err(connection_error)?;
        (self.local, self.remote) = (Some(local), Some(remote));
        self.error = None;
        self.phase = Phase::Connecting(Box::new((connecting, endpoint)));
        Ok(())
    }

    /// Checks whether the peer has answered, and updates the phase if so.
    pub(super) fn poll_connecting(&mut self) -> bool {
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        let Phase::Connecting(pending) = phase else {
            self.phase = phase;
            return false;
        };
        let (connecting, endpoint) = *pending;
        let answered = match connecting.check() {
            Ok(Establishing::Pending(still)) => {
                self.phase = Phase::Connecting(Box::new((still, endpoint)));
                return false;
            }
            Ok(Establishing::Established(connection)) => {
                let peer = ConnectData::parse(connection.private());
                peer.or_errno(Errno::EPROTO)
                    .map(|peer| Stream::new(connection, endpoint, peer))
            }
            Err(error) => Err(connection_error(error)),
        };
        self.phase = match answered {
            Ok(stream) => Phase::Stream(Box::new(stream)),
            Err(error) => {
                self.error = Some(error.errno());
                Phase::Failed(error.errno())
            }
        };
        true
    }
}

fn claim_port(addresses: Addresses, index: u32, port: u16) -> Result<PortClaim, Error> {
    PortClaim::take(PortSpace::Tcp, addresses, index, port).map_err(|error| {
        let errno = match &error {
            PortClaimError::Taken(_) => Errno::EADDRINUSE,
            PortClaimError::AllTaken { .. } => Errno::EADDRNOTAVAIL,
            _ => Errno::EIO,
        };
        Error::new(errno, error)
    })
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

pub(super) fn connection_error(error: ConnectionError) -> Error {
    let errno = match &error {
        ConnectionError::Rejected { private, .. } if private.starts_with(SHUT) => {
            Errno::EPROTONOSUPPORT
        }
        ConnectionError::Rejected { .. } => Errno::ECONNREFUSED,
        ConnectionError::Unreachable(_) => Errno::ETIMEDOUT,
        ConnectionError::Ended => Errno::ECONNRESET,
        ConnectionError::Port(_) => Errno::EADDRINUSE,
        ConnectionError::Start(_) | ConnectionError::Qp(_) => Errno::ENODEV,
        _ => Errno::EIO,
    };
    Error::new(errno, error)
}
