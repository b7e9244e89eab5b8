//! What the NIC needs in order to send: the [`Transmit`] trait.
//!
//! # Contract
//!
//! - [`Transmit::reserve`] lends room for one packet. The caller fills all of
//!   [`TxSlot::bytes`] and calls [`Transmit::commit`] or [`Transmit::commit_last`].
//! - A reservation that is not committed is dropped at the next `reserve`, and nothing
//!   of it is sent. The next reservation for the same destination and length then gets
//!   the same header fields.
//! - Committed packets to one destination leave in the order in which they were
//!   committed. The implementation may queue them, and the queue has a fixed bound:
//!   when it is full, `reserve` returns [`ReserveError::Full`].
//! - Neither side allocates memory for each packet.
//!
//! When queued packets leave is agreed between the implementation and the code that
//! drives it, and none of the NIC's business.

use crate::encapsulation::{IpCovered, TxMeta};
use roce_wire::Qpn;

/// Accepts the packets that a [`Nic`](crate::Nic) sends. See the module's contract.
pub trait Transmit {
    /// Lends room for a packet of exactly `len` bytes (BTH to ICRC) to the QP `to_qp`.
    /// An implementation that joins packets into one datagram joins only those whose
    /// QPs belong to the same process.
    ///
    /// # Errors
    /// See [`ReserveError`].
    fn reserve(&mut self, to: &TxMeta, to_qp: Qpn, len: usize) -> Result<TxSlot<'_>, ReserveError>;

    /// Queues the packet that was reserved last.
    fn commit(&mut self);

    /// Queues the packet that was reserved last. No other packet follows for now: the
    /// implementation may send its queue at once, so that the packet does not wait for
    /// the work that the caller does before it flushes.
    fn commit_last(&mut self) {
        self.commit();
    }
}

/// Room for one packet, lent by [`Transmit::reserve`].
#[derive(Debug)]
pub struct TxSlot<'a> {
    /// Exactly as many bytes as asked for, BTH to ICRC; their contents are
    /// arbitrary until written.
    pub bytes: &'a mut [u8],
    /// The UDP source port that the packet will carry.
    pub src_port: u16,
    /// The covered fields of the IP header that the packet will carry; never
    /// [`IpCovered::V4Hidden`].
    pub ip: IpCovered,
}

/// Why [`Transmit::reserve`] lent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The queue is full: flush, or come back when the network took some.
    Full,
    /// The packet is longer than the link allows, or addresses are unusable: it
    /// can never be sent. Counts as a drop.
    Unsendable,
}
