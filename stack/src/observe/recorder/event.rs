//! The events of a QP, as people read them.

use crate::counters::DropReason;
use crate::duration_text::DurationText;
use crate::kind::QpState;
use crate::time::Instant;
use crate::wr::WcOpcode;
use core::fmt;
use roce_wire::{NakCode, Opcode, Psn, Syndrome};

/// An event of a QP, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it happened.
    pub at: Instant,
    /// What happened.
    pub event: QpEvent,
}

/// What happened at a QP.
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
        /// What the QP did with it.
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

/// What a QP did with a packet.
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

impl fmt::Display for QpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PostedSend {
                opcode: opcode @ WcOpcode::LocalInv,
                ..
            } => write!(f, "posted {}", opcode.label()),
            Self::PostedSend { opcode, bytes } => {
                write!(f, "posted {} of {bytes} bytes", opcode.label())
            }
            Self::PostedReceives { count: 1 } => f.write_str("posted a receive"),
            Self::PostedReceives { count } => write!(f, "posted {count} receives"),
            Self::PostsRefused { opcode, count: 1 } => {
                write!(f, "refused to post {}", opcode.label())
            }
            Self::PostsRefused { opcode, count } => {
                write!(f, "refused {count} times to post {}", opcode.label())
            }
            Self::ModifyRefused { from, to } => {
                write!(
                    f,
                    "refused to modify state {} to {}",
                    from.name(),
                    to.name()
                )
            }
            Self::Sent {
                opcode,
                psn,
                bytes,
                syndrome,
                again,
            } => {
                f.write_str(if again { "retransmitted " } else { "sent " })?;
                write_packet(f, opcode, psn, bytes, syndrome)
            }
            Self::Unsendable { opcode, psn, bytes } => {
                f.write_str("could not send ")?;
                write_packet(f, opcode, psn, bytes, None)
            }
            Self::SentMiddle {
                opcode,
                psn,
                packets,
                again,
            } => {
                f.write_str(if again { "retransmitted " } else { "sent " })?;
                write_run(f, opcode, psn, packets)
            }
            Self::Received {
                opcode,
                psn,
                bytes,
                syndrome,
                verdict,
            } => {
                f.write_str("received ")?;
                write_packet(f, opcode, psn, bytes, syndrome)?;
                match verdict {
                    Verdict::Accepted => Ok(()),
                    Verdict::Duplicate => f.write_str(": duplicate"),
                    Verdict::KeptOutOfOrder => f.write_str(": out of order, kept"),
                    Verdict::Denied => f.write_str(": not executed"),
                    Verdict::Dropped(reason) => write!(f, ": dropped ({})", reason.label()),
                }
            }
            Self::ReceivedMiddle {
                opcode,
                psn,
                packets,
            } => {
                f.write_str("received ")?;
                write_run(f, opcode, psn, packets)
            }
            Self::DroppedKept { packets, reason } => {
                let plural = if packets == 1 { "" } else { "s" };
                write!(
                    f,
                    "dropped {packets} kept packet{plural} ({})",
                    reason.label()
                )
            }
            Self::TimedOut { psn, retries_left } => {
                let plural = if retries_left == 1 { "y" } else { "ies" };
                write!(
                    f,
                    "no response to PSN {psn} within the local ACK timeout, {retries_left} \
                     retr{plural} left"
                )
            }
            Self::ResponseLate { psn } => write!(f, "the response to PSN {psn} is late"),
            Self::RnrTimerEnded => f.write_str("the RNR timer has ended"),
            Self::SlowedDown { kbit_per_sec } => {
                let mbit = f64::from(kbit_per_sec) / 1000.0;
                write!(f, "the CNP has reduced the rate to {mbit:.1} Mb/s")
            }
            Self::StateChanged { from, to } => {
                write!(f, "state {} to {}", from.name(), to.name())
            }
        }
    }
}

fn write_packet(
    f: &mut fmt::Formatter<'_>,
    opcode: Opcode,
    psn: Psn,
    bytes: u16,
    syndrome: Option<Syndrome>,
) -> fmt::Result {
    write!(f, "{opcode}, PSN {psn}")?;
    match syndrome {
        None => write!(f, ", {bytes} bytes"),
        Some(Syndrome::Ack(_)) if bytes > 0 => write!(f, ", {bytes} bytes"),
        Some(Syndrome::Ack(_)) => f.write_str(", ACK"),
        Some(Syndrome::RnrNak(timer)) => {
            write!(f, ", RNR NAK, wait {}", DurationText(timer.duration()))
        }
        Some(Syndrome::Nak(code)) => write!(f, ", NAK, {}", nak_name(code)),
        Some(Syndrome::Reserved(byte)) => write!(f, ", reserved syndrome {byte:#04x}"),
    }
}

fn write_run(f: &mut fmt::Formatter<'_>, opcode: Opcode, first: Psn, packets: u16) -> fmt::Result {
    let last = Psn::new(first.get().wrapping_add(u32::from(packets) - 1));
    write!(f, "{packets} {opcode}, PSN {first} to {last}")
}

/// The name of a NAK in the specification (IBTA 1.7, 9.7.5.2).
fn nak_name(code: NakCode) -> &'static str {
    match code {
        NakCode::PsnSequenceError => "PSN sequence error",
        NakCode::InvalidRequest => "invalid request",
        NakCode::RemoteAccessError => "remote access error",
        NakCode::RemoteOperationalError => "remote operational error",
        NakCode::InvalidRdRequest => "invalid RD request",
        NakCode::Reserved(_) => "reserved code",
    }
}
