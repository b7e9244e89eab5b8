//! The traffic class of a socket, and the priority that the kernel gives its packets.
//!
//! A message can carry its own traffic class but, on most kernels, not its own priority. So a
//! socket whose packets have priorities takes the class, and with it the priority, of the next
//! packet to send. Each call then sends packets of one class only. Acknowledgements have the class
//! of the packets they acknowledge, so the class seldom changes.

use std::io;

use roce_stack::PriorityMap;
use socket2::Socket;

use super::PortSocket;
use crate::prepare::{set_class, set_priority};

/// The highest priority that needs no privilege.
const MOST_FOR_ALL: u8 = 6;

/// Checks that this process may use the configured priorities.
pub(super) fn require(socket: &Socket, map: &PriorityMap) -> io::Result<()> {
    match map.changed().map(|(_, priority)| priority).max() {
        Some(most) if most > MOST_FOR_ALL => set_priority(socket, most),
        _ => Ok(()),
    }
}

impl PortSocket {
    /// Gives the socket the class of the oldest datagram, and its priority, if priorities are
    /// configured. Returns the class, if only packets of that class can be sent now.
    pub(super) fn settle_priority(&mut self) -> Option<u8> {
        let map = self.priorities?;
        let class = self.queue.iter().next()?.to.traffic_class;
        if class != self.own_class || !self.has_priority {
            set_class(&self.socket, self.address, class).ok()?;
            self.own_class = class;
            // If the process may not set this priority, the kernel's default for the class stays in
            // force.
            let _ = set_priority(&self.socket, map.of(class));
            self.has_priority = true;
        }
        Some(class)
    }
}
