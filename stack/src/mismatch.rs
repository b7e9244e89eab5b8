//! Packets that a QP does not take because the two ends are not set up alike.
//!
//! The QP drops them and does not fail, as the specification asks, and the sender sees at most that
//! nobody answers. [`Nic::poll_mismatch`](crate::Nic::poll_mismatch) reports what was compared, once for
//! each QP and reason.

use crate::counters::DropReason;
use crate::encapsulation::RxMeta;
use crate::kind::{QpKind, QpState};
use crate::memory::{Access, DeniedAccess};
use roce_wire::{Opcode, Packet, Psn, QKey, Qpn, Transport};
use std::net::IpAddr;

/// A packet that was dropped, and what did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The QP that the packet is for.
    pub qpn: Qpn,
    /// The sender's address.
    pub from: IpAddr,
    /// The packet's opcode.
    pub opcode: Opcode,
    /// How often it has been seen.
    pub times: u32,
    /// The counter that has it.
    pub reason: DropReason,
    /// The property that did not fit.
    pub difference: Difference,
}

/// A property of a packet that did not fit a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// No QP has the number.
    NoQp,
    /// The QP takes no packets in its state.
    State(QpState),
    /// The QP is of another service.
    Service(QpKind),
    /// The QP is connected to another address.
    Peer {
        /// The address that the packet was sent to.
        to: IpAddr,
        /// The QP's own address and that of its peer.
        connected: (IpAddr, IpAddr),
    },
    /// The packet is RoCE v1 and the QP's path RoCE v2, or the other way around.
    Version,
    /// The partitions differ.
    Partition,
    /// The Q_Keys differ.
    QKey {
        /// The QP that sent it.
        src_qpn: Qpn,
        /// The Q_Key of the datagram.
        sent: QKey,
        /// The Q_Key of the QP.
        own: QKey,
    },
    /// The peer begins with another PSN than the QP expects.
    FirstPsn {
        /// The packet's PSN.
        sent: Psn,
        /// The PSN that the QP expects.
        expected: Psn,
    },
    /// The length of a datagram, or of a packet, does not fit the path MTU.
    Length {
        /// The payload in bytes.
        len: usize,
        /// The path MTU in bytes.
        mtu: usize,
    },
    /// No receive was posted.
    NoReceive,
    /// The message is longer than the receive.
    ReceiveTooShort {
        /// The bytes of the message so far.
        message: u64,
        /// The bytes of a datagram's message that are its network header.
        header: u64,
        /// The length of the receive in bytes.
        receive: u64,
    },
    /// A WRITE may not use the memory.
    Memory(DeniedAccess),
    /// The QP lacks a right.
    Right(Access),
}

impl Mismatch {
    /// Of a packet that was not admitted, or taken, for a reason that says enough.
    pub(crate) fn new(
        qpn: Qpn,
        meta: &RxMeta,
        packet: &Packet<'_>,
        found: (DropReason, Difference),
    ) -> Self {
        Self {
            qpn,
            from: meta.src,
            opcode: packet.bth.opcode,
            times: 1,
            reason: found.0,
            difference: found.1,
        }
    }

    /// How often it must be seen until it is worth a report: a reliable QP retransmits what comes too
    /// early, and late packets come after the end of a connection.
    pub(crate) fn threshold(&self) -> u32 {
        match self.opcode.transport() {
            Transport::Uc | Transport::Ud => 1,
            _ => 3,
        }
    }
}
