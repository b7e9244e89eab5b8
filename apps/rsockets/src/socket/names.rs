//! The addresses of a socket.

use super::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Socket {
    /// `getsockname`.
    pub(crate) fn local_name(&self) -> SocketAddr {
        let any = match self.domain {
            Domain::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Domain::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let local = self.state.lock().local;
        self.in_domain(local.unwrap_or(SocketAddr::new(any, 0)))
    }

    /// `getpeername`.
    pub(crate) fn peer_name(&self) -> Result<SocketAddr, Error> {
        let state = self.state.lock();
        match (&state.phase, state.remote) {
            (Phase::Stream(_), Some(remote)) => Ok(self.in_domain(remote)),
            _ => Err(Errno::ENOTCONN.into()),
        }
    }

    /// An address as programs with a socket of this domain expect it.
    fn in_domain(&self, address: SocketAddr) -> SocketAddr {
        match (self.domain, address) {
            (Domain::V6, SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => address,
        }
    }
}
