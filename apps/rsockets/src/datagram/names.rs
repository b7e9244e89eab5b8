//! Binding, connecting and ending, and the addresses of a socket.

use super::*;
use crate::nic::{canonical, nics};
use crate::socket::Shutdown;

/// The longest time that a close waits until datagrams have left.
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
            // Before the port is taken: the socket can be bound once only.
            nics().with_address(local)?;
        }
        self.udp.bind(address)?;
        self.serve(&mut state)?;
        if is_one {
            // The program learns here that the device can't be used, and not when a peer sends.
            let port = state.local.map_or(0, |local| local.port());
            state.endpoint_at(SocketAddr::new(local.ip(), port))?;
        }
        Ok(())
    }

    /// `connect`: datagrams go to this peer, and only those of this peer arrive.
    pub(crate) fn connect(&self, remote: SocketAddr) -> Result<(), Error> {
        let remote = self.target(remote)?;
        let mut state = self.state.lock();
        state.check_open()?;
        self.ensure_port(&mut state)?;
        self.udp.connect(remote)?;
        state.local = Some(self.udp.local()?);
        if let Err(error) = state.new_peer(remote) {
            self.unconnect(&mut state)?;
            return Err(error);
        }
        state.connected = Some(remote);
        state.error = None;
        Ok(())
    }

    /// `connect` to an address of no family: undoes an earlier one.
    pub(crate) fn disconnect(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check_open()?;
        self.unconnect(&mut state)
    }

    fn unconnect(&self, state: &mut State) -> Result<(), Error> {
        self.udp.disconnect()?;
        state.connected = None;
        let Some(bound) = state.bound else {
            return Ok(());
        };
        if self.udp.local()?.port() == 0 {
            // The kernel takes back a port that it has chosen. Peers know the socket by it.
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
        self.announce();
        Ok(())
    }

    /// `close`. The caller has taken the socket out of the table.
    pub(crate) fn close(&self) {
        service::remove(self.udp.borrow());
        self.flush(CLOSE_LIMIT);
        let mut state = self.state.lock();
        state.closed = true;
        state.endpoints.clear();
        state.inbox = Inbox::default();
        state.peers = Peers::default();
        self.announce();
    }

    /// The process ends: lets datagrams leave, for at most `limit`.
    pub(crate) fn leave(&self, limit: Duration) {
        // Another thread may hold the lock for ever.
        if self.state.try_lock_for(limit).is_some() {
            self.flush(limit.min(CLOSE_LIMIT));
        }
    }

    /// Waits at most `limit` until the datagrams have left that the program has sent.
    fn flush(&self, limit: Duration) {
        // This fails when the time is over, or after a signal. Datagrams may be lost.
        let _ = self.wait(Patience::of(Some(limit)), |state| {
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
        Ok(self.in_domain(connected.ok_or(Errno::ENOTCONN)?))
    }

    /// An address as programs with a socket of this domain expect it.
    pub(super) fn in_domain(&self, address: SocketAddr) -> SocketAddr {
        match (self.domain, address) {
            (Domain::V6, SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => address,
        }
    }
}
