//! One socket: an address of the interface, or a multicast group, and UDP port 4791.

mod group;
mod open;
mod priority;
mod receive;
mod transmit;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use roce_stack::PriorityMap;
use socket2::Socket;

use crate::queue::TxQueue;
use crate::share::{Member, Services};

pub(crate) use open::{max_datagram, open, probe};
pub(crate) use transmit::Flushed;

/// A socket and what waits to leave through it.
pub(crate) struct PortSocket {
    pub(crate) address: IpAddr,
    pub(crate) queue: TxQueue,
    socket: Socket,
    /// The place among the processes that share the address's port, if it is shared.
    member: Option<Member>,
    /// The interface's index: the scope of link-local addresses.
    scope: u32,
    /// The traffic class that the socket gives what is sent without one.
    own_class: u8,
    /// The traffic class of the last datagram that left alone.
    lone_class: u8,
    /// The priorities that the kernel is to give packets, if it is to.
    priorities: Option<PriorityMap>,
    /// The socket's own priority is that of its class.
    has_priority: bool,
    /// How many bundles to ask for at the next receive.
    burst: usize,
    /// Receives in a row that found nothing.
    empty_polls: u32,
}

impl PortSocket {
    /// Says which management datagrams are to come here, if others share the address.
    pub(crate) fn announce(&mut self, services: &Services) -> io::Result<()> {
        match &mut self.member {
            Some(member) => member.announce(services),
            None => Ok(()),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
