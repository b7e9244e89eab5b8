//! The names of a socket.

use super::*;

impl Socket {
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
}
