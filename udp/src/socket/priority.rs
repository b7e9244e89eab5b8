//! The traffic class of a socket, and the priority that the kernel gives its packets.
//!
//! A message can carry its own traffic class but, on most kernels, not its own priority. So if
//! priorities are configured, the port sets the class and priority of the next packet at the
//! socket. Each system call then sends packets of one class only. Acknowledgements have the class
//! of the packets that they acknowledge, so the class seldom changes.

use std::io;

use roce_stack::PriorityMap;
use socket2::Socket;

use super::PortSocket;
use crate::prepare::{set_class, set_priority};

/// The highest priority that needs no privilege.
const MAX_UNPRIVILEGED: u8 = 6;

/// Checks that this process may use the configured priorities.
pub(super) fn check_permitted(socket: &Socket, map: &PriorityMap) -> io::Result<()> {
    match map.changed().map(|(_, priority)| priority).max() {
        Some(highest) if highest > MAX_UNPRIVILEGED => set_priority(socket, highest),
        _ => Ok(()),
    }
}

impl PortSocket {
    /// If priorities are configured, sets the class and priority of the oldest datagram at the
    /// socket. Returns the class if only packets of that class can be sent now.
    pub(super) fn adopt_priority(&mut self) -> Option<u8> {
        let map = self.priorities?;
        let class = self.queue.iter().next()?.to.traffic_class;
        if class != self.socket_class || !self.has_priority {
            set_class(&self.socket, self.address, class).ok()?;
            self.socket_class = class;
            // If the process may not set this priority, the kernel's default for the class stays in
            // force.
            let _ = set_priority(&self.socket, map.of(class));
            self.has_priority = true;
        }
        Some(class)
    }
}
