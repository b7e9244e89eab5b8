//! [`XdpPort`], which implements the `Port` trait over AF_XDP sockets, one for each queue of the
//! interface that the port uses.

mod clock;
mod config;
mod counters;
mod groups;
mod loopback;
mod open;
mod reach;
mod receive;
mod transmit;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use roce_port::{Port, PortCapabilities, PortError, PortFd, PortQueue, RxSink};
use roce_stack::{Flow, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot};

pub use config::{Ipv6Checksum, XdpPortConfig};
pub use counters::XdpCounters;

use crate::net::{Changes, Net, Waiting};
use crate::offer::DriverOffer;
use crate::program::{Attached, Program};
use crate::queue::{Held, QueueError};
use crate::socket::SocketQueue;
use clock::Clock;
use groups::Groups;
use loopback::Loopback;
use transmit::{Reserved, Special};

/// A port over AF_XDP. See [`Port`] for the contract.
///
/// The port does for frames what the kernel does for sockets: it finds the next hop and its
/// Ethernet address, writes all headers from Ethernet to UDP, and removes them from received
/// frames. It sees the complete IP header of a received packet, so the ICRC can be checked
/// completely.
///
/// The port's user waits for the descriptors of [`XdpPort::fds`] when it has no work.
/// [`Port::follow_network`] handles network events (routes, neighbours, addresses, the link).
/// [`Port::receive`] calls it about every millisecond.
pub struct XdpPort {
    config: XdpPortConfig,
    net: Net,
    queues: Vec<SocketQueue>,
    program: Program,
    attached: Attached,
    driver: Option<DriverOffer>,
    /// The activated addresses.
    active: Vec<IpAddr>,
    groups: Groups,
    loopback: Loopback,
    /// Frames whose next hop's address is not known yet, each with its queue.
    waiting: Waiting<(usize, Held)>,
    reserved: Reserved,
    special: Special,
    /// The identification of the next packet over IPv4.
    next_id: u16,
    /// The queue to receive from first.
    next_queue: usize,
    /// The buffer in which frames of several pieces are reassembled.
    assembly: Box<[u8]>,
    clock: Clock,
    /// The changes since the last [`XdpPort::take_changes`].
    changes: Changes,
    counters: XdpCounters,
}

impl XdpPort {
    /// A port for the interface of `config` in the network namespace of the calling thread, with no
    /// address activated yet.
    ///
    /// # Errors
    /// If the interface is not supported, another program is attached to it or another socket bound
    /// to its queues, or the kernel refuses for any other reason. Everything done so far is undone.
    pub fn open(config: XdpPortConfig) -> Result<Self, PortError> {
        open::open(config)
    }

    /// The configuration that the port was opened with.
    pub fn config(&self) -> &XdpPortConfig {
        &self.config
    }

    /// The state of the network.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// The queues, for the modes and statistics of their sockets.
    pub fn queues(&self) -> &[SocketQueue] {
        &self.queues
    }

    /// How the redirect program is attached.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// The packets that the port has sent, received and dropped so far, without the counters of its
    /// queues and of the network.
    pub fn counters(&self) -> &XdpCounters {
        &self.counters
    }

    /// The capabilities of the driver when the port was opened; `None` on kernels before 6.3, which
    /// don't report them.
    pub fn driver(&self) -> Option<DriverOffer> {
        self.driver
    }

    /// The descriptors to wait for, until [`Port::next_deadline`] at the latest: the descriptors of
    /// the queues, then the descriptor of network events.
    pub fn fds(&self) -> impl Iterator<Item = PortFd<'_>> {
        let network = PortFd {
            fd: self.net.fd(),
            wants_write: false,
        };
        self.queue_fds().chain([network])
    }

    /// The queues' descriptors.
    pub fn queue_fds(&self) -> impl Iterator<Item = PortFd<'_>> {
        // While the link is down, no frame leaves, although the sockets report that they are
        // writable. A network event reports when the link is up again.
        let is_up = self.net.link().is_some_and(|link| link.up);
        self.queues.iter().map(move |queue| PortFd {
            fd: queue.kernel().as_fd(),
            wants_write: is_up && queue.has_queued(),
        })
    }

    /// Returns the changes since the last call: MTU, addresses, neighbours.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Stops redirecting packets to addresses that the interface no longer has, so that the kernel
    /// gets them.
    fn drop_removed_addresses(&mut self) -> Result<(), PortError> {
        let own = self.net.addresses();
        let mut gone = Vec::new();
        self.active.retain(|&address| {
            let remains = own.iter().any(|own| own.address == address);
            if !remains {
                gone.push(address);
            }
            remains
        });
        for address in gone {
            self.program
                .remove_address(address)
                .map_err(program_error)?;
        }
        Ok(())
    }

    fn queue_error(&self, queue: usize, error: QueueError) -> PortError {
        let name = &self.config.sockets.interface;
        let number = self.queues[queue].kernel().queue();
        let source = match error {
            QueueError::Wake { source, .. } => source,
            other => io::Error::other(other),
        };
        PortError {
            what: format!("queue {number} of interface {name}, over AF_XDP"),
            source,
        }
    }
}

impl Transmit for XdpPort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        _sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.reserve_slot(to, flow, len)
    }

    fn commit(&mut self) {
        self.commit_reserved();
    }

    fn commit_last(&mut self) {
        self.commit_and_send();
    }
}

impl Port for XdpPort {
    fn capabilities(&self) -> PortCapabilities {
        let has_ipv6 = self.net.addresses().iter().any(|own| own.address.is_ipv6());
        let mtu = self
            .net
            .link()
            .map_or(0, |link| link.mtu)
            .min(self.config.max_ip_bytes());
        PortCapabilities {
            max_packet_bytes: config::max_packet_bytes(mtu, has_ipv6, self.config.redirect.roce_v1),
            receive_buffer_bytes: self.config.receive_buffer_bytes(),
        }
    }

    fn carries(&self, version: RoceVersion) -> bool {
        version == RoceVersion::V2 || self.config.redirect.roce_v1
    }

    fn reserved(&mut self) -> &[u8] {
        self.reserved_bytes().unwrap_or_default()
    }

    fn check(&mut self, path: &TxMeta) -> Result<(), PortError> {
        self.check_path(path)
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        if self.active.contains(&address) {
            return Ok(());
        }
        let is_own = |port: &Self| {
            port.net
                .addresses()
                .iter()
                .any(|own| own.address == address)
        };
        if !is_own(self) {
            // The address may be new, so handle network events first.
            self.follow_network()?;
        }
        if !is_own(self) {
            return Err(self.not_an_address(address));
        }
        self.program.add_address(address).map_err(program_error)?;
        self.active.push(address);
        Ok(())
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        if self.groups.contains(group) {
            return Ok(());
        }
        self.groups.join(&self.config.sockets, group)?;
        self.net.accept_group(group);
        let outcome = self.program.add_address(group).map_err(program_error);
        if outcome.is_err() {
            self.leave(group);
        }
        outcome
    }

    fn leave(&mut self, group: IpAddr) {
        if self.groups.leave(group) {
            self.net.leave_group(group);
            // This fails only if the map is gone, and then the port receives no frames.
            let _ = self.program.remove_address(group);
        }
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        if self.clock.network_poll_is_due() {
            self.follow_network()?;
        }
        let looped = self.loopback.receive(budget, sink);
        Ok(looped + self.receive_frames(budget - looped, sink)?)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        let mut empty = true;
        for queue in 0..self.queues.len() {
            match self.queues[queue].flush() {
                Ok(nothing_left) => empty &= nothing_left,
                Err(error) => return Err(self.queue_error(queue, error)),
            }
        }
        Ok(empty)
    }

    // The number includes the frames that wait for their neighbour's address.
    fn queued(&self) -> usize {
        self.queues.iter().map(SocketQueue::unsent).sum()
    }

    #[inline]
    fn batches_mixed_packets(&self) -> bool {
        true
    }

    fn has_looped(&self) -> bool {
        !self.loopback.is_empty()
    }

    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        self.queue_fds().collect()
    }

    fn network_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.net.fd())
    }

    fn next_deadline(&self) -> Option<std::time::Duration> {
        let now = self.clock.now();
        let deadlines = [self.net.next_deadline(), self.waiting.next_deadline()];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    // Also sends or drops the frames that waited for a neighbour.
    fn follow_network(&mut self) -> Result<(), PortError> {
        let now = self.clock.now();
        let changes = self.net.poll(now)?;
        self.changes.link |= changes.link;
        self.changes.addresses |= changes.addresses;
        self.changes.neighbours |= changes.neighbours;
        if changes.addresses {
            self.drop_removed_addresses()?;
        }
        let is_late = self
            .waiting
            .next_deadline()
            .is_some_and(|deadline| deadline <= now);
        if changes.neighbours || is_late {
            self.release_waiting(now)?;
        }
        Ok(())
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        counters::all(self)
    }

    fn each_queue(&self) -> Vec<PortQueue> {
        let describe = |queue: &SocketQueue| PortQueue {
            number: queue.kernel().queue(),
            zero_copy: queue.kernel().is_zero_copy(),
            shares_memory: queue.kernel().shares_memory(),
            counters: counters::of_queue(queue).collect(),
        };
        self.queues.iter().map(describe).collect()
    }
}

impl XdpPort {
    fn not_an_address(&self, address: IpAddr) -> PortError {
        let addresses: Vec<String> = self
            .net
            .addresses()
            .iter()
            .map(|own| own.address.to_string())
            .collect();
        let addresses = if addresses.is_empty() {
            "none".to_owned()
        } else {
            addresses.join(", ")
        };
        PortError {
            what: format!(
                "activating {address}: it is no address of {}, whose addresses are: {addresses}",
                self.config.sockets.interface
            ),
            source: io::Error::from_raw_os_error(libc::EADDRNOTAVAIL),
        }
    }
}

fn program_error(error: crate::program::ProgramError) -> PortError {
    PortError {
        what: error.what,
        source: error.source,
    }
}
