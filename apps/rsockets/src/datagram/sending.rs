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
    /// It has left from the QP.
    Sent,
    /// It goes over the UDP socket with this header: the peer's QP is unknown, or the datagram is
    /// longer than a packet.
    Udp(UdpHeader),
}

impl Datagram {
    /// `sendto`; without `to`, `send` of a connected socket. Returns the number of bytes: all.
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
                Some(to) => self.target(to)?,
                None => state.connected.ok_or(Errno::EDESTADDRREQ)?,
            };
            self.ensure_port(&mut state)?;
            (to, state.send_timeout)
        };
        let len = Gather::new(slices).left();
        let most = endpoint::MAX_LEN - UdpHeader::len_for(to.ip());
        if len > most {
            let what = format!("a datagram of {len} bytes, but the longest is {most}");
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
        // The header is one slice more than the system takes.
        let whole: Vec<u8> = all.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.udp
            .send(&[IoSlice::new(&whole)], header.address, to, dont_wait)
            .map(drop)
    }

    /// The address that a program means: the unspecified one is this host.
    pub(super) fn target(&self, to: SocketAddr) -> Result<SocketAddr, Error> {
        let to = udp::key(to);
        if self.domain == Domain::V4 && to.is_ipv6() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        if to.ip().is_unspecified() {
            return Ok(SocketAddr::new(source_for(to)?.ip(), to.port()));
        }
        Ok(to)
    }

    /// Gives the socket a port, if it has none, and lets the service thread look after it.
    pub(super) fn ensure_port(&self, state: &mut State) -> Result<(), Error> {
        if state.local.is_none() {
            self.udp.bind(SocketAddr::new(self.udp.any(), 0))?;
            self.serve(state)?;
        }
        Ok(())
    }
}

impl State {
    /// Sends a datagram from its QP, or says that it must go over UDP. `None` if the send queue is
    /// full.
    fn try_send(&mut self, to: SocketAddr, data: &mut Gather<'_>) -> Result<Option<Way>, Error> {
        if self.peers.used(to).is_none() {
            self.new_peer(to)?;
        }
        let Some(peer) = self.peers.used(to) else {
            return Err(Errno::ENOBUFS.into());
        };
        let endpoint = &mut self.endpoints[peer.endpoint];
        if endpoint.is_broken() {
            *endpoint = Endpoint::new(endpoint.local(), &self.sizes)?;
            self.inbox.forget(peer.endpoint);
        }
        if data.left() > endpoint.limit() {
            peer.ask();
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

    /// A peer that the program sends to for the first time.
    pub(super) fn new_peer(&mut self, to: SocketAddr) -> Result<(), Error> {
        let local = self.source_towards(to)?;
        let endpoint = self.endpoint_at(local)?;
        self.peers.get_or_insert(to, Peer::new(endpoint));
        Ok(())
    }

    /// The local address, with the socket's port, from which datagrams to a peer leave.
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
