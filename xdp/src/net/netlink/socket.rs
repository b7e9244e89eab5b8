//! Netlink sockets for links, addresses, routes and neighbours.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Size of the receive buffer, in bytes. The kernel's messages are shorter than this, unless a
/// reader offers a larger buffer (netlink(7)).
const BUFFER_BYTES: usize = 64 << 10;

/// Size in bytes of the kernel's buffer for unread events. When it overflows, the core requests all
/// facts again.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The subscriptions: links, neighbours, addresses, routes, rules, next hop objects.
const GROUPS: [u32; 9] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    RTNLGRP_NEXTHOP,
];
const RTNLGRP_NEXTHOP: u32 = 32;

/// The form of a request's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Kind {
    /// One message.
    Get,
    /// A series of messages.
    Dump,
    /// An acknowledgement. The request changes the state of the kernel.
    Change,
}

/// A netlink socket that never blocks.
pub(in crate::net) struct NetlinkSocket {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

/// The result of [`Kernel::receive`].
pub(in crate::net) enum Datagram<'a> {
    /// No datagram waits.
    None,
    /// Messages.
    Messages(&'a [u8]),
    /// The kernel had to drop messages.
    Overrun,
}

impl NetlinkSocket {
    /// A socket for requests.
    pub(super) fn for_requests() -> io::Result<NetlinkSocket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        Ok(NetlinkSocket {
            socket,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            sequence: 0,
        })
    }

    /// A socket that receives the events of all `GROUPS`.
    pub(super) fn for_events() -> io::Result<NetlinkSocket> {
        let this = NetlinkSocket::for_requests()?;
        // The system may limit the size. That only makes overruns more likely.
        this.socket.set_rx_buf_sz(RECEIVE_BUFFER_BYTES)?;
        for group in GROUPS {
            match this.socket.add_membership(group) {
                // Ignore the error: a kernel without next hop objects has no such group.
                Err(_) if group == RTNLGRP_NEXTHOP => {}
                other => other?,
            }
        }
        Ok(this)
    }

    /// A descriptor that is readable when events wait.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Kernel for NetlinkSocket {
    fn receive(&mut self) -> io::Result<Datagram<'_>> {
        loop {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, libc::MSG_TRUNC) {
                Ok((len, _)) if len > self.buffer.len() => return Ok(Datagram::Overrun),
                // Only the kernel has port 0. Ignore any other sender.
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok(_) => return Ok(Datagram::Messages(&self.buffer)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(Datagram::None),
                    Some(libc::ENOBUFS) => return Ok(Datagram::Overrun),
                    Some(libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.send(request, 0).map(drop)
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

/// The kernel, at the other end of a socket.
pub(in crate::net) trait Kernel {
    /// The next datagram. Never blocks.
    fn receive(&mut self) -> io::Result<Datagram<'_>>;

    /// Sends a request.
    fn send(&mut self, request: &[u8]) -> io::Result<()>;

    /// The number of the next request.
    fn next_sequence(&mut self) -> u32;

    /// Sends a request and passes each message of the answer to `each`. The kernel answers before
    /// the send returns, so this function never blocks, except that the kernel may wait for another
    /// process that changes the routing tables.
    fn request(
        &mut self,
        kind: Kind,
        request: RouteNetlinkMessage,
        mut each: impl FnMut(Parsed),
    ) -> io::Result<()> {
        self.drain()?;
        let sequence = self.next_sequence();
        let mut header = NetlinkHeader::default();
        header.sequence_number = sequence;
        header.flags = NLM_F_REQUEST
            | match kind {
                Kind::Get => NLM_F_ACK,
                Kind::Dump => NLM_F_DUMP,
                Kind::Change => NLM_F_ACK | NLM_F_CREATE,
            };
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.send(&bytes)?;
        self.read_answer(sequence, &mut each)
    }

    /// Reads the answer to the request with this number.
    fn read_answer(&mut self, sequence: u32, each: &mut impl FnMut(Parsed)) -> io::Result<()> {
        loop {
            let bytes = match self.receive()? {
                Datagram::None => return Err(io::ErrorKind::WouldBlock.into()),
                Datagram::Overrun => return Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
                Datagram::Messages(bytes) => bytes,
            };
            for message in messages(bytes) {
                match message {
                    Parsed::End {
                        sequence: found,
                        error,
                    } if found == sequence => {
                        return error.map_or(Ok(()), Err);
                    }
                    Parsed::Message {
                        sequence: found, ..
                    } if found != sequence => {}
                    Parsed::End { .. } => {}
                    other => each(other),
                }
            }
        }
    }

    /// Discards the rest of an answer that ended early.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            if let Datagram::None = self.receive()? {
                return Ok(());
            }
        }
    }
}

/// A message from the kernel.
pub(in crate::net) enum Parsed {
    /// A message that was decoded.
    Message {
        sequence: u32,
        message: Box<RouteNetlinkMessage>,
    },
    /// The end of an answer, with the error if the request failed.
    End {
        sequence: u32,
        error: Option<io::Error>,
    },
    /// A message of this type that could not be decoded.
    Unknown(u16),
}

/// The error that a code means. The kernel's codes are negative.
fn error_of(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code.checked_abs().unwrap_or(i32::MAX))
}

/// The messages of a datagram, in order.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Parsed> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = NetlinkBuffer::new_checked(rest).ok()?;
        let len = header.length() as usize;
        let kind = header.message_type();
        let sequence = header.sequence_number();
        let (bytes, _) = rest.split_at_checked(len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(match NetlinkMessage::deserialize(bytes) {
            Err(_) => Parsed::Unknown(kind),
            Ok(message) => match message.payload {
                NetlinkPayload::InnerMessage(message) => Parsed::Message {
                    sequence,
                    message: Box::new(message),
                },
                NetlinkPayload::Error(error) => Parsed::End {
                    sequence,
                    error: error.code.map(|code| error_of(code.get())),
                },
                NetlinkPayload::Done(_) => Parsed::End {
                    sequence,
                    error: None,
                },
                _ => Parsed::Unknown(kind),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error message with this code, in answer to request 7.
    fn error_message(code: i32) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 4 + 16];
        bytes[0] = 36;
        bytes[4] = libc::NLMSG_ERROR as u8;
        bytes[8] = 7;
        bytes[16..20].copy_from_slice(&code.to_ne_bytes());
        bytes
    }

    #[test]
    fn every_code_of_an_error_is_an_error() {
        for (code, number) in [
            (-libc::ENODEV, libc::ENODEV),
            (libc::ENODEV, libc::ENODEV),
            (i32::MIN, i32::MAX),
        ] {
            let bytes = error_message(code);
            let parsed: Vec<_> = messages(&bytes).collect();
            let [
                Parsed::End {
                    sequence: 7,
                    error: Some(error),
                },
            ] = parsed.as_slice()
            else {
                panic!("{code}");
            };
            assert_eq!(error.raw_os_error(), Some(number));
        }
        let acknowledged = error_message(0);
        let first = messages(&acknowledged).next();
        assert!(matches!(first, Some(Parsed::End { error: None, .. })));
    }
}
