//! The events of a QP.

use crate::counters::DropReason;
use crate::kind::QpState;
use crate::time::Instant;
use crate::wr::WcOpcode;
use roce_wire::{Opcode, Psn, Syndrome};

/// An event of a QP, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it happened.
    pub at: Instant,
    /// The event.
    pub event: QpEvent,
}

/// An event at a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QpEvent {
    /// A send request was posted.
    PostedSend {
        /// Its operation.
        opcode: WcOpcode,
        /// Its length; that of the window or the memory, if it binds or flushes one.
        bytes: u32,
    },
    /// Receive requests were posted, one after the other.
    PostedReceives {
        /// Their number.
        count: u32,
    },
    /// Send requests were refused when they were posted, one after the other.
    PostsRefused {
        /// The operation of the first.
        opcode: WcOpcode,
        /// Their number.
        count: u32,
    },
    /// The application's change of state was refused.
    ModifyRefused {
        /// The state that the QP is in.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// A packet was sent.
    Sent {
        /// Its opcode.
        opcode: Opcode,
        /// Its PSN.
        psn: Psn,
        /// Its payload in bytes.
        bytes: u16,
        /// The acknowledgement that it carries, without the credits of an ACK.
        syndrome: Option<Syndrome>,
        /// It had been sent before.
        again: bool,
    },
    /// The port could not send a packet at all.
    Unsendable {
        /// Its opcode.
        opcode: Opcode,
        /// Its PSN.
        psn: Psn,
        /// Its payload in bytes.
        bytes: u16,
    },
    /// Packets in the middle of a message were sent, in order.
    SentMiddle {
        /// Their opcode.
        opcode: Opcode,
        /// The PSN of the first.
        psn: Psn,
        /// Their number.
        packets: u16,
        /// They had been sent before.
        again: bool,
    },
    /// A packet arrived.
    Received {
        /// Its opcode.
        opcode: Opcode,
        /// Its PSN.
        psn: Psn,
        /// Its payload in bytes.
        bytes: u16,
        /// The acknowledgement that it carries, without the credits of an ACK.
        syndrome: Option<Syndrome>,
        /// The QP's decision about it.
        verdict: Verdict,
    },
    /// Packets in the middle of a message arrived in order, and were accepted.
    ReceivedMiddle {
        /// Their opcode.
        opcode: Opcode,
        /// The PSN of the first.
        psn: Psn,
        /// Their number.
        packets: u16,
    },
    /// Packets that had been kept out of order were dropped.
    DroppedKept {
        /// Their number.
        packets: u16,
        /// Why.
        reason: DropReason,
    },
    /// No response came within the local ACK timeout.
    TimedOut {
        /// The first packet without a response.
        psn: Psn,
        /// The number of retries that were left.
        retries_left: u8,
    },
    /// A response is late in comparison with the measured round trip.
    ResponseLate {
        /// The first packet without a response.
        psn: Psn,
    },
    /// The RNR timer has ended.
    RnrTimerEnded,
    /// A CNP has reduced the rate.
    SlowedDown {
        /// The new rate, in kilobits a second.
        kbit_per_sec: u32,
    },
    /// The state of the QP has changed.
    StateChanged {
        /// The state before.
        from: QpState,
        /// The state now.
        to: QpState,
    },
}

/// A QP's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It was the expected one, or an acknowledgement.
    Accepted,
    /// A duplicate of a request, to which the QP replies.
    Duplicate,
    /// It is ahead of the expected PSN, and kept.
    KeptOutOfOrder,
    /// It is a request that gets a NAK or an RNR NAK.
    Denied,
    /// It was dropped.
    Dropped(DropReason),
}
