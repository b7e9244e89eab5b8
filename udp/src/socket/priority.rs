//! The traffic class of a socket, and the priority that the kernel gives its packets.
//!
//! A message can carry its own traffic class but, on most kernels, not its own priority. So a
//! socket whose packets have priorities takes the class, and with it the priority, of the next
//! packet to send. Each call then sends packets of one class only. Acknowledgements have the class
//! of the packets they acknowledge, so the class seldom changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use roce_stack::PriorityMap;
use socket2::{SockRef, Socket};

use super::PortSocket;
use crate::sys::options;

/// The highest priority that needs no privilege.
const MOST_FOR_ALL: u8 = 6;

/// Sets the priority of packets that a socket sends from now on.
pub(super) fn set(socket: &Socket, priority: u8) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PRIORITY);
    options::set(socket.as_fd(), level, name, priority.into())
}

/// Sets the traffic class of packets that a socket sends from now on. Over IPv4 the kernel derives
/// a priority from it at once.
pub(super) fn set_class(socket: &Socket, address: IpAddr, class: u8) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match address {
        IpAddr::V4(_) => socket.set_tos_v4(class.into()),
        IpAddr::V6(_) => socket.set_tclass_v6(class.into()),
    }
}

/// Checks that this process may use the configured priorities.
pub(super) fn require(socket: &Socket, map: &PriorityMap) -> io::Result<()> {
    match map.changed().map(|(_, priority)| priority).max() {
        Some(most) if most > MOST_FOR_ALL => set(socket, most),
        _ => Ok(()),
    }
}

impl PortSocket {
    /// Gives the socket the class of the oldest datagram, and its priority, if priorities are
    /// configured. Returns the class, if only packets of that class can be sent now.
    pub(super) fn settle_priority(&mut self) -> Option<u8> {
        let map = self.priorities?;
        let class = self.queue.iter().next()?.0.to.traffic_class;
        if class != self.own_class || !self.has_priority {
            set_class(&self.socket, self.address, class).ok()?;
            self.own_class = class;
            // If the process may not set this priority, the kernel's default for the class stays in
            // force.
            let _ = set(&self.socket, map.of(class));
            self.has_priority = true;
        }
        Some(class)
    }
}
