//! A whole port, as its driver sees it: the [`Port`] trait.
//!
//! A port carries *transport packets*: the bytes from the BTH to the ICRC, both
//! included, which are the payload of RoCEv2's UDP datagram and of RoCE v1's GRH.
//! Ethernet, IP and UDP are the port's business.
//!
//! # Contract
//!
//! Sending follows the contract of [`Transmit`]. Beyond that:
//!
//! - [`Port::receive`] hands out received packets as slices of the port's own
//!   buffers, each valid for the length of the call to the sink only.
//! - Committed packets leave at [`Port::flush`] at the latest, in order for each
//!   destination. What the network does not take at once stays queued inside the
//!   port for the next `flush`; the queue has a fixed bound, and when it is full
//!   `reserve` answers [`ReserveError::Full`](roce_stack::ReserveError::Full).
//! - Nothing is allocated per packet.

use crate::error::PortError;
use roce_stack::{Addresses, RoceVersion, RxMeta, Transmit, TxMeta};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Receives packets from [`Port::receive`].
pub trait RxSink {
    /// One packet: what is known of its IP header, and its bytes from BTH to ICRC
    /// (unchecked: any bytes at all, of any length).
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]);
}

impl<F: FnMut(&RxMeta, &[u8])> RxSink for F {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self(meta, transport);
    }
}

/// What a port can do, and how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// The largest transport packet (BTH to ICRC) that [`Transmit::reserve`] lends
    /// room for, in bytes: the link's MTU less IP and UDP headers (IPv6's, if the
    /// port has addresses of that kind).
    pub max_packet_bytes: usize,
    /// About how many bytes the receiving side of such a port holds before it
    /// drops: the stack keeps what it has in flight below it.
    pub receive_buffer_bytes: usize,
}

/// A descriptor that a driver waits for when a port has nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct PortFd<'a> {
    /// The descriptor. It is readable when packets wait.
    pub fd: BorrowedFd<'a>,
    /// Packets are queued: also wait until the descriptor is writable, then flush.
    pub wants_write: bool,
}

/// A network port that carries transport packets. See the module's contract.
pub trait Port: Transmit {
    /// What this port can do.
    fn capabilities(&self) -> PortCapabilities;

    /// Whether the port carries packets of this version of RoCE. Every port carries
    /// RoCEv2.
    fn carries(&self, version: RoceVersion) -> bool {
        version == RoceVersion::V2
    }

    /// Whether packets can be sent along this path, as far as the port knows. A port asks
    /// the network no such thing for RoCEv2, whose routes may change. RoCE v1 does not
    /// pass routers, so some destinations are out of its reach. Call it once, when a
    /// path is chosen.
    ///
    /// # Errors
    /// Why nothing can be sent, and what would change that.
    fn check(&mut self, _path: &TxMeta) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes `address` usable as a source and starts to receive what is sent to
    /// it. Activating an address twice does nothing.
    ///
    /// # Errors
    /// Fails if the address isn't the interface's or UDP port 4791 is taken.
    fn activate(&mut self, address: IpAddr) -> Result<(), PortError>;

    /// Tells the port the addresses that its interface has now. A port that follows
    /// them by itself ignores this.
    fn set_addresses(&mut self, _addresses: Vec<IpAddr>) {}

    /// Starts to receive what is sent to the multicast group on the port's interface,
    /// packets that this host sends included. Joining a group twice does nothing.
    ///
    /// # Errors
    /// Fails if the address is not a group's, or if the operating system refuses.
    fn join(&mut self, group: IpAddr) -> Result<(), PortError>;

    /// Ends what [`Port::join`] began, if it did.
    fn leave(&mut self, group: IpAddr);

    /// Hands up to about `budget` packets to `sink` and returns how many; 0 if
    /// none waits. Never blocks.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError>;

    /// Sends what is queued, as far as the network takes it. Never blocks.
    /// Returns whether nothing remains queued.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn flush(&mut self) -> Result<bool, PortError>;

    /// Packets that were committed and that the network has not taken yet.
    fn queued(&self) -> usize;

    /// Whether [`Port::flush`] sends packets of different lengths, and to different QPs,
    /// by one system call, each as soon as its turn comes. Then a packet that is queued
    /// behind another one does not delay it, and costs less than it would later.
    #[inline]
    fn sends_all_by_one_call(&self) -> bool {
        false
    }

    /// Whether packets wait to be received that no descriptor reports.
    #[inline]
    fn has_looped(&self) -> bool {
        false
    }

    /// The descriptors to wait for when there is nothing to do.
    fn packet_fds(&self) -> Vec<PortFd<'_>>;

    /// A descriptor that is readable when [`Port::follow_network`] has something to do.
    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The time from now after which [`Port::follow_network`] must be called, even if no
    /// descriptor is readable. `None` if it need not.
    #[inline]
    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// Follows the changes of routes, neighbours, addresses and the link. For sockets the
    /// kernel does this.
    ///
    /// # Errors
    /// Fails if the interface is gone for good.
    fn follow_network(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// What the port has counted so far, by name.
    fn each_counter(&self) -> Vec<(&'static str, u64)>;

    /// How to choose the management datagrams that come to this process, if several
    /// processes share the interface. `None` if all of them come here.
    fn steering(&mut self) -> Option<&mut dyn Steering> {
        None
    }
}

/// Chooses which management datagrams (to QP1) of a shared interface come to this
/// process.
pub trait Steering {
    /// The interface's index.
    fn interface_index(&self) -> u32;

    /// Takes management datagrams at the activated addresses, now and later: those that
    /// answer to an ID of this process's own part, and, if this process is the first to
    /// take them, those that name no process. Calling it twice does nothing.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn open_general_services(&mut self) -> io::Result<()>;

    /// Ends that, and all services with it.
    fn close_general_services(&mut self);

    /// Takes requests for a service, by the lower half of its ID, at those of the
    /// activated addresses, now and later, that `local` contains.
    ///
    /// # Errors
    /// Fails if the kernel refuses; then the port takes none.
    fn serve(&mut self, local: Addresses, service: u32) -> io::Result<()>;

    /// Ends that.
    fn stop_serving(&mut self, local: Addresses, service: u32);
}
