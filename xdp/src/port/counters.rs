//! The counters of a port, without the counters of its queues and of the network.

use super::XdpPort;
use crate::net::WaitDrop;
use crate::socket::SocketQueue;
use crate::umem::Owner;

/// Counters of packets that a port has received, sent and dropped, without the counters of its
/// queues and of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpCounters {
    /// Packets delivered.
    pub rx_packets: u64,
    /// Bytes of these packets, from BTH to ICRC.
    pub rx_bytes: u64,
    /// Frames dropped because they were longer than 64 KiB.
    pub rx_too_long: u64,
    /// Packets committed for transmission.
    pub tx_packets: u64,
    /// Bytes of these packets, from BTH to ICRC.
    pub tx_bytes: u64,
    /// Reservations refused because the queue was full.
    pub tx_queue_full: u64,
    /// Reservations refused because the packet can't be sent.
    pub tx_unsendable: u64,
    /// Packets that had to wait for their neighbour's address.
    pub tx_waited: u64,
    /// Packets whose UDP checksum the port computed.
    pub tx_checksums_here: u64,
    /// Packets and copies of multicast packets that were looped back to this port.
    pub tx_looped: u64,
    /// Packets and copies of multicast packets that were dropped instead of looped back, because
    /// too many waited.
    pub tx_loop_full: u64,
}

impl XdpCounters {
    /// Every counter with its name, for tables.
    pub fn each(&self) -> [(&'static str, u64); 11] {
        [
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("rx_too_long", self.rx_too_long),
            ("tx_packets", self.tx_packets),
            ("tx_bytes", self.tx_bytes),
            ("tx_queue_full", self.tx_queue_full),
            ("tx_unsendable", self.tx_unsendable),
            ("tx_waited", self.tx_waited),
            ("tx_checksums_here", self.tx_checksums_here),
            ("tx_looped", self.tx_looped),
            ("tx_loop_full", self.tx_loop_full),
        ]
    }
}

/// Every counter of a queue and of its socket, and the current number of chunks of each
/// [`Owner`](crate::umem::Owner).
pub(super) fn of_queue(queue: &SocketQueue) -> impl Iterator<Item = (&'static str, u64)> {
    let chunks = queue.chunks();
    let chunks = Owner::ALL.map(|owner| (owner.name(), chunks.of(owner).into()));
    // If the kernel does not report statistics, its counters are 0.
    let kernel = queue.kernel().statistics().unwrap_or_default();
    let own = queue.counters().each();
    own.chain(chunks).chain(kernel.each())
}

/// Every counter of a port, summed over its queues, and the current number of chunks of each owner.
pub(super) fn all(port: &XdpPort) -> Vec<(&'static str, u64)> {
    let mut all: Vec<(&'static str, u64)> = port.counters.each().into();
    let mut add = |name, value| match all.iter_mut().find(|(known, _)| *known == name) {
        Some((_, sum)) => *sum += value,
        None => all.push((name, value)),
    };
    for queue in &port.queues {
        for (name, value) in of_queue(queue) {
            add(name, value);
        }
    }
    for (name, value) in port.net.counters().each() {
        add(name, value);
    }
    for reason in WaitDrop::ALL {
        add(reason.name(), port.waiting.dropped(reason));
    }
    all
}
