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
use roce_stack::{RoceVersion, RxMeta, Transmit, TxMeta};
use std::net::IpAddr;

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

/// A network port that carries transport packets. See the module's contract.
pub trait Port: Transmit {
    /// What this port can do.
    fn capabilities(&self) -> PortCapabilities;

    /// Whether the port carries packets of this version of RoCE. Every port carries
    /// RoCEv2.
    fn carries(&self, version: RoceVersion) -> bool {
        version == RoceVersion::V2
    }

    /// Whether anything at all can be sent along this path, as far as that is known. RoCEv2
    /// leaves it to the network, which may change; RoCE v1 does not pass routers, so some
    /// destinations are beyond it. To be asked once, when a path is chosen.
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

    /// Starts to receive what is sent to the multicast group, on the interface that
    /// the port stands for. What this host sends to the group, through this very port
    /// too, is received like what others send. Joining a group twice does nothing.
    ///
    /// # Errors
    /// Fails if the address is no group's, if the operating system refuses, and on a
    /// port that has no multicast.
    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        Err(PortError {
            what: format!("joining multicast group {group}: this port has no multicast"),
            source: std::io::ErrorKind::Unsupported.into(),
        })
    }

    /// Ends what [`Port::join`] began, if it did.
    fn leave(&mut self, _group: IpAddr) {}

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
}
