//! Sending.

use super::peers::Peer;
use super::*;
use crate::nic::source_for;
use crate::stream::Gather;
use crate::wire::{Operation, UdpHeader};
use std::io::IoSlice;
use std::net::IpAddr;

/// How a datagram is sent.
enum Way {
    /// It was sent from the QP.
    Sent,
    /// It must go over the UDP socket with this header: the peer's QP is unknown, or the datagram does
    /// not fit into a packet.
    Udp(UdpHeader),
}

impl Datagram {
    /// `sendto`; without `to`, `send` on a connected socket. Returns the number of bytes: always all.
    pub(crate) fn send(
        &self,
        slices: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        dont_wait: bool,
    ) -> Result<usize, Error> {
        let (to, limit) = {
            let mut state = self.state.lock();
            state.check_open()?;
            state.report()?;
            if !state.writes {
                return Err(Errno::EPIPE.into());
            }
            let to = match to {
                Some(to) => self.resolve_target(to)?,
                None => state.connected.ok_or(Errno::EDESTADDRREQ)?,
            };
            self.ensure_port(&mut state)?;
            (to, state.send_timeout)
        };
        let len = Gather::new(slices).left();
        let most = endpoint::MAX_LEN - UdpHeader::len_for(to.ip());
        if len > most {
            let what = format!("the datagram has {len} bytes; the maximum is {most}");
            return Err(Error::new(Errno::EMSGSIZE, what));
        }
        let patience = self.patience(dont_wait, limit);
        let way = self.wait(patience, |state| {
            state.check_open()?;
            state.try_send(to, &mut Gather::new(slices))
        })?;
        if let Way::Udp(header) = way {
            self.send_udp(&header, slices, to, patience == Patience::None)?;
        }
        Ok(len)
    }

    /// Sends a message with a header over the UDP socket.
    pub(super) fn send_udp(
        &self,
        header: &UdpHeader,
        slices: &[IoSlice<'_>],
        to: SocketAddr,
        dont_wait: bool,
    ) -> Result<(), Errno> {
        let bytes = header.encode();
        let mut all = Vec::with_capacity(1 + slices.len());
        all.push(IoSlice::new(&bytes));
        all.extend_from_slice(slices);
        if all.len() <= libc::UIO_MAXIOV as usize {
            return self.udp.send(&all, header.address, to, dont_wait).map(drop);
        }
        // The header exceeds the kernel's limit on slices.
        let whole: Vec<u8> = all.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.udp
            .send(&[IoSlice::new(&whole)], header.address, to, dont_wait)
            .map(drop)
    }

    /// Resolves the program's destination: the unspecified address means this host.
    pub(super) fn resolve_target(&self, to: SocketAddr) -> Result<SocketAddr, Error> {
        let to = udp::normalize(to);
        if self.domain == Domain::V4 && to.is_ipv6() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        if to.ip().is_unspecified() {
            return Ok(SocketAddr::new(source_for(to)?.ip(), to.port()));
        }
        Ok(to)
    }

    /// Binds the socket to a port if it has none, and registers it with the service thread.
    pub(super) fn ensure_port(&self, state: &mut State) -> Result<(), Error> {
        if state.local.is_none() {
            self.udp
                .bind(SocketAddr::new(self.domain.unspecified(), 0))?;
            self.register_with_service(state)?;
        }
        Ok(())
    }
}

impl State {
    /// Sends a datagram from its QP, or returns that it must go over UDP. `None` if the send queue is
    /// full.
    fn try_send(&mut self, to: SocketAddr, data: &mut Gather<'_>) -> Result<Option<Way>, Error> {
        if self.peers.touch(to).is_none() {
            self.new_peer(to)?;
        }
        let Some(peer) = self.peers.touch(to) else {
            return Err(Errno::ENOBUFS.into());
        };
        let endpoint = &mut self.endpoints[peer.endpoint];
        if endpoint.is_broken() {
            *endpoint = Endpoint::new(endpoint.local(), &self.sizes)?;
            self.inbox.forget(peer.endpoint);
        }
        if data.left() > endpoint.limit() {
            peer.mark_asked();
        } else if let Some(destination) = peer.destination(Instant::now()) {
            if !endpoint.can_send() {
                return Ok(None);
            }
            endpoint.send(destination, data)?;
            return Ok(Some(Way::Sent));
        }
        Ok(Some(Way::Udp(UdpHeader {
            operation: Operation::Data,
            qpn: endpoint.qpn(),
            address: endpoint.local().ip(),
        })))
    }

    /// Adds a peer that the program sends to for the first time.
    pub(super) fn new_peer(&mut self, to: SocketAddr) -> Result<(), Error> {
        let local = self.source_towards(to)?;
        let endpoint = self.endpoint_at(local)?;
        self.peers.get_or_insert(to, Peer::new(endpoint));
        Ok(())
    }

    /// The source address and port of datagrams to a peer.
    pub(super) fn source_towards(&self, remote: SocketAddr) -> Result<SocketAddr, Error> {
        let local = self.local.ok_or(Errno::EINVAL)?;
        if !local.ip().is_unspecified() {
            return Ok(crate::nic::canonical(local));
        }
        let mut source = source_for(remote)?;
        source.set_port(local.port());
        Ok(source)
    }

    /// A local address with the socket's port.
    pub(super) fn with_port(&self, ip: IpAddr, like: SocketAddr) -> SocketAddr {
        let port = self.local.map_or(0, |local| local.port());
        let mut local = SocketAddr::new(ip, port);
        if let (SocketAddr::V6(local), SocketAddr::V6(like)) = (&mut local, like)
            && local.ip().is_unicast_link_local()
        {
            local.set_scope_id(like.scope_id());
        }
        local
    }
}
