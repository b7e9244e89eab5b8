//! Receiving.

use super::peers::Peer;
use super::*;
use crate::socket::ReceiveFlags;
use crate::wire::{Operation, UdpHeader};
use std::io::IoSliceMut;

/// The result of a receive call: a datagram, or a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of bytes that were copied.
    pub len: usize,
    /// The length of the datagram.
    pub whole: usize,
    /// The peer; `None` if the socket is shut down and there was no datagram.
    pub from: Option<SocketAddr>,
}

impl Datagram {
    /// `recvfrom`.
    pub(crate) fn receive(
        &self,
        slices: &mut [IoSliceMut<'_>],
        flags: ReceiveFlags,
    ) -> Result<Received, Error> {
        let limit = self.state.lock().receive_timeout;
        let mut received = self.wait(self.patience(flags.dont_wait, limit), |state| {
            state.check_open()?;
            state.report()?;
            if let Some(received) = state.copy_first(slices, flags.peek) {
                return Ok(Some(received));
            }
            let nothing = Received {
                len: 0,
                whole: 0,
                from: None,
            };
            Ok((!state.reads).then_some(nothing))
        })?;
        received.from = received.from.map(|from| self.domain.map_address(from));
        Ok(received)
    }

    /// For the service thread: handles at most `turns` messages from the UDP socket.
    pub(super) fn handle_udp(&self, turns: usize) {
        let mut message = [0; endpoint::MAX_LEN];
        for _ in 0..turns {
            match self.udp.receive(&mut message) {
                Ok(arrived) => self.handle_message(&arrived, &message),
                Err(Errno::EAGAIN) => return,
                // An ICMP error for a sent datagram, such as a closed port or no route.
                Err(errno) => {
                    let mut state = self.state.lock();
                    if state.connected.is_some() {
                        state.error = Some(errno);
                        self.wake_sleepers();
                    }
                    return;
                }
            }
        }
    }

    /// Handles a message from the UDP socket. Drops it unless it is valid.
    fn handle_message(&self, message: &udp::Message, bytes: &[u8]) {
        let Some(bytes) = message.len.and_then(|len| bytes.get(..len)) else {
            return;
        };
        let Ok((header, data)) = UdpHeader::parse(bytes) else {
            return;
        };
        let answer = {
            let mut state = self.state.lock();
            if state.closed || state.connected.is_some_and(|peer| peer != message.from) {
                return;
            }
            // Fails if no device has the address any more.
            let Ok(endpoint) = state.learn(message, &header) else {
                return;
            };
            if header.operation == Operation::Control {
                return;
            }
            let limit = state.endpoints[endpoint].receives();
            if state.takes_from(message.from) && state.inbox.push_copy(message.from, data, limit) {
                self.wake_sleepers();
            }
            UdpHeader {
                operation: Operation::Control,
                qpn: state.endpoints[endpoint].qpn(),
                address: state.endpoints[endpoint].local().ip(),
            }
        };
        // The answer goes only to the sender and is not longer than the message. If this fails, the peer
        // asks again.
        let _ = self.send_udp(&answer, &[], message.from, true);
    }
}

impl State {
    /// Learns a peer's QPN from its message. Returns the index of the endpoint that the message was sent
    /// to.
    fn learn(&mut self, message: &udp::Message, header: &UdpHeader) -> Result<usize, Error> {
        let from = message.from;
        let local = match message.to.filter(|to| !to.is_multicast()) {
            Some(to) => self.with_port(to, from),
            None => self.source_towards(from)?,
        };
        let endpoint = self.endpoint_for_stranger(local)?;
        let peer = self.peers.get_or_insert(from, Peer::new(endpoint));
        if let Some(destination) = self.endpoints[endpoint].destination(from.ip(), header.qpn) {
            peer.learn_qp(endpoint, destination, Instant::now());
        }
        Ok(endpoint)
    }

    /// The endpoint at the destination address of a message.
    fn endpoint_for_stranger(&mut self, local: SocketAddr) -> Result<usize, Error> {
        let now = Instant::now();
        let is_used = self
            .endpoints
            .iter()
            .any(|each| each.local().ip() == local.ip());
        if !is_used && self.failures.is_recent(local.ip(), now) {
            return Err(Errno::EADDRNOTAVAIL.into());
        }
        self.endpoint_at(local)
            .inspect_err(|_| self.failures.remember(local.ip(), now))
    }

    /// Copies the first datagram, truncated to fit, and removes it unless `peek`.
    fn copy_first(&mut self, slices: &mut [IoSliceMut<'_>], peek: bool) -> Option<Received> {
        let first = self.inbox.first()?;
        let len = match &first.place {
            Place::Copy(bytes) => scatter(slices, first.len, |at, out| {
                out.copy_from_slice(&bytes[at..at + out.len()]);
            }),
            Place::Receive {
                endpoint, start, ..
            } => {
                let endpoint = &self.endpoints[*endpoint];
                scatter(slices, first.len, |at, out| endpoint.read(start + at, out))
            }
        };
        let received = Received {
            len,
            whole: first.len,
            from: Some(first.source),
        };
        if !peek
            && let Some(taken) = self.inbox.take_first()
            && let Place::Receive { endpoint, slot, .. } = taken.place
        {
            self.endpoints[endpoint].repost_receive(slot);
        }
        Some(received)
    }
}

/// Fills slices with up to `len` bytes and returns their number. `copy` gets the offset of each slice.
fn scatter(
    slices: &mut [IoSliceMut<'_>],
    len: usize,
    mut copy: impl FnMut(usize, &mut [u8]),
) -> usize {
    let mut at = 0;
    for slice in slices {
        let now = slice.len().min(len - at);
        copy(at, &mut slice[..now]);
        at += now;
    }
    at
}
