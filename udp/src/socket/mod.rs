//! One socket: UDP port 4791 of an address of the interface, or of a multicast group.

mod group;
mod open;
mod priority;
mod receive;
mod transmit;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use roce_stack::PriorityMap;
use socket2::Socket;

use crate::queue::TxQueue;
use crate::share::{Member, Services};

pub(crate) use open::{max_datagram_bytes, open, probe};
pub(crate) use transmit::{Flushed, Sender};

/// A socket of the port, and its transmit queue.
pub(crate) struct PortSocket {
    pub(crate) address: IpAddr,
    pub(crate) queue: TxQueue,
    socket: Socket,
    /// This process's membership among the processes that share the address's port, if it is
    /// shared.
    member: Option<Member>,
    /// The interface's index: the scope of link-local addresses.
    scope: u32,
    /// The traffic class that is set at the socket. Packets sent without a control message have
    /// this class.
    socket_class: u8,
    /// The traffic class of the last packet that was sent with a system call of its own.
    last_single_class: u8,
    /// The configured priorities of packets.
    priorities: Option<PriorityMap>,
    /// Whether the socket's priority is the one that `priorities` assigns to its class.
    has_priority: bool,
    /// Since when the socket, which sends all management datagrams, has refused one.
    refuses_management_since: Option<Instant>,
    /// The maximum number of bundles for the next receive.
    receive_batch: usize,
    /// The number of consecutive receives that found no packet.
    empty_polls: u32,
}

impl PortSocket {
    /// Announces which management datagrams this process receives, if processes share the address.
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
