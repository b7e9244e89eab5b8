//! `bind`, `connect`, `shutdown`, `close`, and the names of a socket.

use super::*;
use crate::nic::{canonical, nics};
use crate::socket::Shutdown;

/// How long a close waits at most until datagrams have been sent.
const CLOSE_LIMIT: Duration = Duration::from_millis(100);

impl Datagram {
    /// `bind`.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check_open()?;
        if state.local.is_some() {
            return Err(Errno::EINVAL.into());
        }
        let local = canonical(address);
        let is_one = !local.ip().is_unspecified() && !local.ip().is_multicast();
        if is_one {
            // Checked before the UDP socket is bound, which works only once.
            nics().with_address(local)?;
        }
        self.udp.bind(address)?;
        self.register_with_service(&mut state)?;
        if is_one {
            // Fail now, not when a peer sends, if the device can't be used.
            let port = state.local.map_or(0, |local| local.port());
            state.endpoint_at(SocketAddr::new(local.ip(), port))?;
        }
        Ok(())
    }

    /// `connect`: sends to this peer, and receives only from it.
    pub(crate) fn connect(&self, remote: SocketAddr) -> Result<(), Error> {
        let remote = self.resolve_target(remote)?;
        let mut state = self.state.lock();
        state.check_open()?;
        self.ensure_port(&mut state)?;
        self.udp.connect(remote)?;
        state.local = Some(self.udp.local()?);
        if let Err(error) = state.new_peer(remote) {
            self.disconnect_locked(&mut state)?;
            return Err(error);
        }
        state.connected = Some(remote);
        state.error = None;
        Ok(())
    }

    /// `connect` to AF_UNSPEC: disconnects.
    pub(crate) fn disconnect(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check_open()?;
        self.disconnect_locked(&mut state)
    }

    fn disconnect_locked(&self, state: &mut State) -> Result<(), Error> {
        self.udp.disconnect()?;
        state.connected = None;
        let Some(bound) = state.bound else {
            return Ok(());
        };
        if self.udp.local()?.port() == 0 {
            // The kernel has released a port that it chose. Peers know the socket by it.
            self.udp.bind(bound)?;
        }
        state.local = Some(self.udp.local()?);
        Ok(())
    }

    /// `shutdown`.
    pub(crate) fn shut_down(&self, which: Shutdown) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check_open()?;
        if state.connected.is_none() {
            return Err(Errno::ENOTCONN.into());
        }
        state.reads &= which == Shutdown::Writes;
        state.writes &= which == Shutdown::Reads;
        self.wake_sleepers();
        Ok(())
    }

    /// `close`. The caller has removed the socket from the table.
    pub(crate) fn close(&self) {
        service::remove(self.udp.borrow());
        self.flush(CLOSE_LIMIT);
        let mut state = self.state.lock();
        state.closed = true;
        state.endpoints.clear();
        state.inbox = Inbox::default();
        state.peers = Peers::default();
        self.wake_sleepers();
    }

    /// At exit: waits at most `limit` until datagrams have been sent.
    pub(crate) fn flush_at_exit(&self, limit: Duration) {
        // Another thread may hold the lock forever.
        if self.state.try_lock_for(limit).is_some() {
            self.flush(limit.min(CLOSE_LIMIT));
        }
    }

    /// Waits at most `limit` until the program's datagrams have been sent.
    fn flush(&self, limit: Duration) {
        // Best effort: fails after `limit` or a signal, and datagrams may be lost.
        let _ = self.wait(Patience::with_limit(Some(limit)), |state| {
            let flushed = state.endpoints.iter().all(Endpoint::is_flushed);
            Ok(flushed.then_some(()))
        });
    }

    /// `getsockname`.
    pub(crate) fn local_name(&self) -> Result<SocketAddr, Error> {
        Ok(self.udp.local()?)
    }

    /// `getpeername`.
    pub(crate) fn peer_name(&self) -> Result<SocketAddr, Error> {
        let connected = self.state.lock().connected;
        Ok(self.domain.map_address(connected.ok_or(Errno::ENOTCONN)?))
    }
}
