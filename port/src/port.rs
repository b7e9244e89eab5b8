//! A complete port, as its driver uses it: the [`Port`] trait.
//!
//! A port carries *transport packets*: the bytes from the BTH to the ICRC, both included, which are
//! the payload of RoCEv2's UDP datagram and of RoCE v1's GRH. The port handles Ethernet, IP and
//! UDP.
//!
//! # Contract
//!
//! Sending follows the contract of [`Transmit`]. Beyond that:
//!
//! - [`Port::receive`] passes received packets as slices of the port's own buffers, each valid only
//!   during the call to the sink.
//! - Committed packets leave at [`Port::flush`] at the latest, in order for each destination.
//!   Packets that the network does not take at once stay in the port's queue for the next `flush`.
//!   The queue has a fixed bound: when it is full, `reserve_run` returns
//!   [`ReserveError::Full`](roce_stack::ReserveError::Full).
//! - The port allocates no memory for each packet.

use crate::effects::{Effects, Loss};
use crate::error::PortError;
use crate::neighbours::Neighbours;
use roce_stack::{Addresses, Counters, Instant, RoceVersion, RxMeta, Transmit, TxMeta};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Receives packets from [`Port::receive`].
pub trait RxSink {
    /// Receives one packet: the metadata from its IP header, and its bytes from BTH to ICRC
    /// (unchecked: any bytes at all, of any length).
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]);

    /// As [`RxSink::packet`], for a packet on which injected faults have had `_effects`.
    fn faulty(&mut self, meta: &RxMeta, transport: &[u8], _effects: &Effects) {
        self.packet(meta, transport);
    }

    /// Notes that injected faults have lost a packet. The sink must not count it as received.
    fn lost(&mut self, _meta: &RxMeta, _transport: &[u8], _why: Loss) {}

    /// The counters of the NIC behind the sink, if there is one. Their change shows what the NIC did
    /// with a packet.
    fn counters(&self) -> Option<&Counters> {
        None
    }
}

impl<F: FnMut(&RxMeta, &[u8])> RxSink for F {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self(meta, transport);
    }
}

/// The capabilities of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// The largest transport packet (BTH to ICRC) that [`Transmit::reserve_run`] lends a buffer for, in
    /// bytes: the link's MTU less the IP and UDP headers (the IPv6 header, if the port has IPv6
    /// addresses).
    pub max_packet_bytes: usize,
    /// The approximate size, in bytes, of the receive buffer of a port of this kind. A QP keeps
    /// fewer bytes than this in flight, on the assumption that the peer's port has the same buffer.
    pub receive_buffer_bytes: usize,
}

/// A descriptor that a driver waits on when a port is idle.
#[derive(Clone, Copy, Debug)]
pub struct PortFd<'a> {
    /// The descriptor. It is readable when packets wait.
    pub fd: BorrowedFd<'a>,
    /// Whether packets are queued. If so, the driver also waits until the descriptor is writable,
    /// and then flushes.
    pub wants_write: bool,
}

/// A queue of a network interface that a port uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortQueue {
    /// Its number, from 0.
    pub number: u32,
    /// Whether the driver reads and writes the queue's frames in the process's memory, according to
    /// the socket.
    pub zero_copy: bool,
    /// Whether the queue shares its registered memory with the first queue.
    pub shares_memory: bool,
    /// The counters of the queue and its socket, by name.
    pub counters: Vec<(&'static str, u64)>,
}

/// A network port that carries transport packets. See the module's contract.
pub trait Port: Transmit {
    /// The port's capabilities.
    fn capabilities(&self) -> PortCapabilities;

    /// Whether the port carries packets of this version of RoCE. Every port carries
    /// RoCEv2.
    fn carries(&self, version: RoceVersion) -> bool {
        version == RoceVersion::V2
    }

    /// The bytes of the last reservation, as the caller has written them: an observer reads them before
    /// the commit. Empty if nothing is reserved, or if what is reserved is lost.
    fn reserved(&mut self) -> &[u8];

    /// Checks whether the port can send packets along `_path`. Call this once, when a path is
    /// chosen. The port uses its present state, and sends no probe. For RoCEv2, a missing route is
    /// no error, because routes may change later. RoCE v1 is not routable, so it can't reach some
    /// destinations.
    ///
    /// # Errors
    /// The reason why no packet can be sent, and what would change that.
    fn check(&mut self, _path: &TxMeta) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes `address` usable as a source, and starts to receive packets to it. A second activation
    /// does nothing.
    ///
    /// # Errors
    /// Fails if the address is not one of the interface's, or if UDP port 4791 is taken.
    fn activate(&mut self, address: IpAddr) -> Result<(), PortError>;

    /// Informs the port of its interface's present addresses. A port that follows them itself
    /// ignores this.
    fn set_addresses(&mut self, _addresses: Vec<IpAddr>) {}

    /// Starts to receive packets to the multicast group on the port's interface, including those of
    /// this host. A second call for the same group does nothing.
    ///
    /// # Errors
    /// Fails if the address is not a multicast address, or if the operating system refuses.
    fn join(&mut self, group: IpAddr) -> Result<(), PortError>;

    /// Leaves a group that was joined with [`Port::join`]; otherwise does nothing.
    fn leave(&mut self, group: IpAddr);

    /// Gives the port the time, by the clock of the code that drives it. A port that has received nothing for a while
    /// may then spare system calls: [`Port::receive`] asks the kernel only once in some microseconds. With
    /// `None`, and if this is never called, it always asks. With `None`, packets also wait for nothing that another
    /// process has to do.
    #[inline]
    fn note_time(&mut self, _now: Option<Instant>) {}

    /// Passes received packets to `sink`, and stops once their number reaches `budget`. A port that
    /// receives several packets in one datagram may exceed `budget`. Returns the number of packets
    /// passed. A port may return 0 while a packet waits; its descriptors then report the packet, and so does
    /// a call that asks the kernel.
    /// Never blocks.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError>;

    /// Sends queued packets until the network takes no more. Never blocks. Returns whether the
    /// queue is empty.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn flush(&mut self) -> Result<bool, PortError>;

    /// The number of committed packets that the network has not taken yet.
    fn queued(&self) -> usize;

    /// Whether one system call of [`Port::flush`] can send packets of different lengths and to
    /// different QPs. On such a port, a packet that is queued behind others does not delay them,
    /// and costs less than a packet that a later call sends.
    #[inline]
    fn batches_mixed_packets(&self) -> bool {
        false
    }

    /// Whether packets wait for [`Port::receive`] although no descriptor of [`Port::packet_fds`]
    /// reports them.
    #[inline]
    fn has_looped(&self) -> bool {
        false
    }

    /// The descriptors to wait on when the port is idle.
    fn packet_fds(&self) -> Vec<PortFd<'_>>;

    /// A descriptor that is readable when [`Port::follow_network`] has something to do.
    fn network_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The time from now after which the driver must call [`Port::follow_network`], even if no
    /// descriptor is readable; `None` if it need not.
    #[inline]
    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// Handles changes of routes, neighbours, addresses and the link. For sockets, the kernel does
    /// this.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn follow_network(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// The port's counters, by name.
    fn each_counter(&self) -> Vec<(&'static str, u64)>;

    /// The number of packets, in both directions, that took lanes.
    fn lane_packets(&self) -> u64 {
        0
    }

    /// The queues of the interface that the port uses itself; none if the kernel does.
    fn each_queue(&self) -> Vec<PortQueue> {
        Vec::new()
    }

    /// The object that reaches other open devices of this user on this host; `None` if the port can't.
    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        None
    }

    /// The object that selects which management datagrams this process receives, if several
    /// processes share the interface. `None` if this process receives all of them.
    fn steering(&mut self) -> Option<&mut dyn Steering> {
        None
    }
}

/// Selects which management datagrams (to QP1) this process receives on a shared interface.
pub trait Steering {
    /// The interface's index.
    fn interface_index(&self) -> u32;

    /// Receives management datagrams at all addresses that are or will be activated. These are the
    /// replies whose communication ID lies in this process's part of the ID space. Of all processes
    /// that call this function, the one whose part of the QPN space is lowest also receives the
    /// datagrams that identify no process. A second call does nothing.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn open_general_services(&mut self) -> io::Result<()>;

    /// Ends [`Steering::open_general_services`], and all services.
    fn close_general_services(&mut self);

    /// Receives connection requests for a service at those addresses in `local` that are or will be
    /// activated. `service` is the lower half of the service ID.
    ///
    /// # Errors
    /// Fails if the kernel refuses. In that case, the port receives no requests for the service.
    fn serve(&mut self, local: Addresses, service: u32) -> io::Result<()>;

    /// Ends [`Steering::serve`].
    fn stop_serving(&mut self, local: Addresses, service: u32);
}
