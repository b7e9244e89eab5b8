//! One socket: UDP port 4791 of an address of the interface, or of a multicast group.

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
pub(crate) use transmit::{Flushed, Sender};

/// A socket and its transmit queue.
pub(crate) struct PortSocket {
    pub(crate) address: IpAddr,
    pub(crate) queue: TxQueue,
    socket: Socket,
    /// The place among the processes that share the address's port, if it is shared.
    member: Option<Member>,
    /// The interface's index: the scope of link-local addresses.
    scope: u32,
    /// The traffic class that is set at the socket. Packets sent without a control message have it.
    own_class: u8,
    /// The traffic class of the last datagram that left alone.
    lone_class: u8,
    /// The priorities that the kernel is to give packets, if configured.
    priorities: Option<PriorityMap>,
    /// Whether the socket's priority was set to the one that `priorities` gives its class.
    has_priority: bool,
    /// Number of bundles to ask for in the next receive.
    burst: usize,
    /// Consecutive receives that found nothing.
    empty_polls: u32,
}

impl PortSocket {
    /// Announces which management datagrams this process takes, if other processes share the
    /// address.
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
