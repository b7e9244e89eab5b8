//! A stream socket: its state, and blocking calls.

mod connecting;
mod listening;
mod route;
mod set;
mod transfer;

use crate::error::{Error, OrErrno};
use crate::nic::Nic;
use crate::options::{Sizes, configuration};
use crate::shared::{Awaited, Shared};
use crate::stream::{Endpoint, Stream};
use crate::wait::Patience;
use nix::errno::Errno;
use roce_verbs::cm::{Connecting, PortClaim};
use roce_verbs::device::Driving;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listening::Listening;
use set::Settings;

pub use route::Route;
pub use set::Time;
pub use transfer::{ReceiveFlags, Shutdown};

/// The address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// AF_INET.
    V4,
    /// AF_INET6, which can also reach IPv4 addresses.
    V6,
}

impl Domain {
    pub(crate) fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The address as a socket of this domain reports it: an IPv6 socket maps IPv4 addresses.
    pub(crate) fn map_address(self, address: SocketAddr) -> SocketAddr {
        match (self, address) {
            (Self::V6, SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => address,
        }
    }
}

/// A stream socket.
pub(crate) struct Socket {
    domain: Domain,
    shared: Shared<State>,
}

/// The state behind a socket's lock.
pub(crate) struct State {
    phase: Phase,
    sizes: Sizes,
    settings: Settings,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    claim: Option<Arc<PortClaim>>,
    /// For SO_ERROR.
    error: Option<Errno>,
}

enum Phase {
    /// Not connected.
    Idle,
    Listening(Box<Listening>),
    Connecting(Box<(Connecting, Endpoint)>),
    Stream(Box<Stream>),
    /// The connection attempt failed.
    Failed(Errno),
    /// Closed. Other threads may still use it.
    Closed,
}

impl Socket {
    pub(crate) fn new(domain: Domain) -> Result<Arc<Self>, Error> {
        Self::with(domain, Phase::Idle, configuration().sizes)
    }

    fn with(domain: Domain, phase: Phase, sizes: Sizes) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            domain,
            shared: Shared::new(State {
                phase,
                sizes,
                settings: Settings::default(),
                local: None,
                remote: None,
                claim: None,
                error: None,
            })?,
        }))
    }

    /// `getsockname`.
    pub(crate) fn local_name(&self) -> SocketAddr {
        let local = self.state.lock().local;
        let any = SocketAddr::new(self.domain.unspecified(), 0);
        self.domain.map_address(local.unwrap_or(any))
    }

    /// `getpeername`.
    pub(crate) fn peer_name(&self) -> Result<SocketAddr, Error> {
        let state = self.state.lock();
        match (&state.phase, state.remote) {
            (Phase::Stream(_), Some(remote)) => Ok(self.domain.map_address(remote)),
            _ => Err(Errno::ENOTCONN.into()),
        }
    }

    /// The socket's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.shared.news_fd()
    }
}

impl Deref for Socket {
    type Target = Shared<State>;

    fn deref(&self) -> &Shared<State> {
        &self.shared
    }
}

impl Awaited for State {
    fn progress(&mut self, mut drive: impl FnMut(*const Nic) -> bool) -> bool {
        match &mut self.phase {
            Phase::Stream(stream) => stream.progress(drive(stream.nic())),
            Phase::Connecting(_) => self.poll_connecting(),
            Phase::Listening(listening) => listening.progress(&self.sizes, Instant::now()),
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
            Phase::Listening(listening) => listening.descriptors(each),
            Phase::Idle | Phase::Failed(_) | Phase::Closed => {}
        }
    }

    fn due(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Listening(listening) => listening.due(),
            _ => None,
        }
    }

    fn hand_over(&self) {
        match &self.phase {
            Phase::Stream(stream) => stream.hand_over(),
            Phase::Connecting(connecting) => connecting.1.nic.context.hand_over(),
            Phase::Listening(listening) => listening.hand_over(),
            Phase::Idle | Phase::Failed(_) | Phase::Closed => {}
        }
    }

    fn needs_driving(&self) -> bool {
        match &self.phase {
            Phase::Stream(stream) => stream.needs_driving(),
            _ => true,
        }
    }

    fn drive_while_waiting(&self) -> Option<Driving> {
        match &self.phase {
            Phase::Stream(stream) => stream.drive_while_waiting(),
            _ => None,
        }
    }

    fn ready(&self) -> i16 {
        const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
        const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
        let when = |is: bool, bits: i16| if is { bits } else { 0 };
        match &self.phase {
            Phase::Stream(stream) => {
                when(stream.is_readable(), IN)
                    | when(stream.is_writable(), OUT)
                    | when(stream.is_read_closed(), libc::POLLRDHUP)
                    | when(stream.is_shut(), libc::POLLHUP)
                    | when(stream.is_broken(), libc::POLLERR)
            }
            Phase::Listening(listening) => when(listening.is_ready(), IN),
            Phase::Failed(_) => IN | OUT | libc::POLLERR | libc::POLLHUP,
            Phase::Idle => OUT | libc::POLLHUP,
            Phase::Connecting(_) => 0,
            Phase::Closed => libc::POLLNVAL,
        }
    }
}
