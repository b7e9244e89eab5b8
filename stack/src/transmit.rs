//! The interface through which the NIC sends packets: the [`Transmit`] trait.
//!
//! # Contract
//!
//! - [`Transmit::reserve_run`] lends a buffer for one packet or for several. The caller fills all of
//!   [`TxSlot::bytes`] and calls [`Transmit::commit`] or [`Transmit::commit_last`].
//! - A reservation that is not committed is dropped at the next reservation, and is not sent.
//! - Committed packets to one destination leave in the order in which they were
//!   committed. The implementation may queue them, and the queue has a fixed bound:
//!   when it is full, `reserve_run` returns [`ReserveError::Full`].
//! - Neither side allocates memory for each packet.
//!
//! # Packets whose memory the implementation keeps
//!
//! An implementation may send a packet without copying it, for instance by giving the
//! kernel the pages that contain it. Then it cannot reuse the memory before the packet has
//! arrived, and sets [`TxSlot::kept`]. This is allowed for [`Sequenced`] packets, which are
//! retransmitted until the peer acknowledges them. The NIC reports the acknowledgement with
//! [`Transmit::acknowledged`].
//!
//! When the peer acknowledges a packet that was retransmitted, a copy of it may still be in
//! flight. Reusing the memory then damages this duplicate copy. The receiver drops it because its
//! ICRC is wrong, but a receiver that does not see the identification of IPv4
//! ([`IpCovered::V4Hidden`]) takes one of 65,536 such copies for a packet. An implementation with
//! such receivers must not reuse the memory of a packet that was retransmitted before all
//! references to it are gone.
//!
//! The implementation and the code that drives it decide when queued packets leave. The NIC does
//! not depend on that time.

use crate::encapsulation::{IpCovered, TxMeta};
use core::num::NonZeroU64;
use roce_wire::Qpn;

/// Accepts the packets that a [`Nic`](crate::Nic) sends. See the module's contract.
pub trait Transmit {
    /// Lends a buffer for at least one and at most `count` packets of exactly `len` bytes (BTH to
    /// ICRC) that follow each other in `flow`. [`TxSlot::bytes`] holds them one after the other. The
    /// rest of the slot is that of the first packet; identifications of IPv4 count up from there. An
    /// implementation may combine several packets in one datagram only if their destination QPs
    /// belong to the same process.
    ///
    /// `sequenced` is the first packet's position in the flow, and positions count up from there. It
    /// is `None` if the NIC does not report the packets to [`Transmit::acknowledged`].
    ///
    /// # Errors
    /// See [`ReserveError`].
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'_>, ReserveError>;

    /// After [`ReserveError::Full`]: whether there may be room for packets to other destinations.
    fn has_room_for_others(&self) -> bool {
        false
    }

    /// Queues the packet or the run that was reserved last.
    fn commit(&mut self);

    /// Queues the packet that was reserved last, when no other packet follows for now. The
    /// implementation may send its queue at once, so that the packet does not wait until the
    /// caller flushes.
    fn commit_last(&mut self) {
        self.commit();
    }

    /// Reports which packets of a flow will never be retransmitted: the implementation may reuse
    /// their memory. The NIC calls this the next time that it transmits, and only for flows that
    /// got [kept](TxSlot::kept) slots.
    fn acknowledged(&mut self, _flow: Flow, _which: Acknowledged) {}
}

/// The packets from one QP to another, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The QP that sends.
    pub from_qp: Qpn,
    /// The QP that the packets name as their destination.
    pub to_qp: Qpn,
}

impl Flow {
    /// The packets from `from_qp` to `to_qp`.
    pub const fn new(from_qp: Qpn, to_qp: Qpn) -> Self {
        Self { from_qp, to_qp }
    }

    /// The UDP source port for the flow's packets, 0xC000 to 0xFFFF. It is derived from both QPNs,
    /// as Linux and RNICs do if no flow label is set, so that the flows between two hosts use
    /// different paths of the network and different queues of a NIC (RoCEv2 Annex A17.9.4 leaves
    /// the source port to the sender). `secret` makes it unpredictable for those who know both
    /// QPNs; its lower 14 bits matter. With the secret 0, the port is the one that Linux and RNICs
    /// choose.
    // rule: A17.9.4-one-port
    pub fn source_port(self, secret: u16) -> u16 {
        let product = u64::from(self.from_qp.get()) * u64::from(self.to_qp.get());
        let folded = product ^ (product >> 20) ^ (product >> 40);
        // The 20 bits of a flow label: its upper 6 are folded into the lower 14.
        let label = folded & 0xf_ffff;
        let entropy = (label & 0x3fff) ^ (label >> 14);
        0xc000 | ((entropy & 0x3fff) as u16 ^ secret)
    }
}

/// A packet's position in its flow. Positions increase from packet to packet, not always by one. A
/// retransmitted packet has the same position as the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub NonZeroU64);

impl Position {
    /// The position of the packet that is `packets` packets behind this one in a
    /// [run](Transmit::reserve_run).
    #[must_use]
    pub fn plus(self, packets: usize) -> Self {
        Self(self.0.saturating_add(packets as u64))
    }
}

/// A packet that the NIC retransmits until the peer acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequenced {
    /// Its position in its flow.
    pub position: Position,
    /// Whether an earlier copy of the packet was sent.
    pub is_retransmission: bool,
}

/// The packets of a flow that will never be retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// All packets before this position: the peer has acknowledged them.
    Before(Position),
    /// All packets that were sent so far: the connection has ended. A new connection of the same
    /// two QPs may start at any position.
    All,
}

/// A buffer for one packet or for a run of packets, lent by [`Transmit::reserve_run`].
#[derive(Debug)]
pub struct TxSlot<'a> {
    /// Exactly `len` bytes for each packet, BTH to ICRC; their contents are arbitrary until written.
    pub bytes: &'a mut [u8],
    /// The UDP source port that the packet will carry.
    pub src_port: u16,
    /// The covered fields of the IP header that the packet will carry; never
    /// [`IpCovered::V4Hidden`]. With [`IpCovered::OnHost`], the packet gets no ICRC.
    pub ip: IpCovered,
    /// Whether the packet stays in this memory after it is sent, until [`Transmit::acknowledged`]
    /// reports it. The implementation never sets this for a packet without a [`Sequenced`].
    pub kept: bool,
}

/// Why [`Transmit::reserve_run`] lent no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The queue is full: flush it, or retry when the network has accepted some packets.
    Full,
    /// The packet is longer than the link allows, or an address is unusable: the packet can never
    /// be sent. Counts as a drop.
    Unsendable,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same two QPNs give the same port, whichever end sends; other QPNs, other ports.
    // shows: A17.9.4-one-port
    #[test]
    fn a_connection_has_one_source_port() {
        let port = |a, b| Flow::new(Qpn::from_bits(a), Qpn::from_bits(b)).source_port(0);
        assert_eq!(port(0x11, 0x1234), port(0x1234, 0x11));
        let ports: std::collections::BTreeSet<u16> = (2..66).map(|b| port(0x11, b)).collect();
        assert_eq!(ports.len(), 64);
        assert!(ports.iter().all(|port| *port >= 0xc000), "{ports:x?}");
    }
}
