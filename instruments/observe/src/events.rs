//! Events of QPs in words.

use crate::InWords;
use core::fmt;
use roce_stack::{DurationText, QpEvent, Verdict, WcOpcode};
use roce_wire::{NakCode, Opcode, Psn, Syndrome};

impl fmt::Display for InWords<'_, QpEvent> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            QpEvent::PostedSend {
                opcode: opcode @ WcOpcode::LocalInv,
                ..
            } => write!(f, "posted {}", opcode.label()),
            QpEvent::PostedSend { opcode, bytes } => {
                write!(f, "posted {} of {bytes} bytes", opcode.label())
            }
            QpEvent::PostedReceives { count: 1 } => f.write_str("posted a receive"),
            QpEvent::PostedReceives { count } => write!(f, "posted {count} receives"),
            QpEvent::PostsRefused { opcode, count: 1 } => {
                write!(f, "refused to post {}", opcode.label())
            }
            QpEvent::PostsRefused { opcode, count } => {
                write!(f, "refused {count} times to post {}", opcode.label())
            }
            QpEvent::ModifyRefused { from, to } => {
                write!(
                    f,
                    "refused to modify state {} to {}",
                    from.name(),
                    to.name()
                )
            }
            QpEvent::Sent {
                opcode,
                psn,
                bytes,
                syndrome,
                again,
            } => {
                f.write_str(if again { "retransmitted " } else { "sent " })?;
                write_packet(f, opcode, psn, bytes, syndrome)
            }
            QpEvent::Unsendable { opcode, psn, bytes } => {
                f.write_str("could not send ")?;
                write_packet(f, opcode, psn, bytes, None)
            }
            QpEvent::SentMiddle {
                opcode,
                psn,
                packets,
                again,
            } => {
                f.write_str(if again { "retransmitted " } else { "sent " })?;
                write_run(f, opcode, psn, packets)
            }
            QpEvent::Received {
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
                    other => write!(f, ": {other:?}"),
                }
            }
            QpEvent::ReceivedMiddle {
                opcode,
                psn,
                packets,
            } => {
                f.write_str("received ")?;
                write_run(f, opcode, psn, packets)
            }
            QpEvent::DroppedKept { packets, reason } => {
                let plural = if packets == 1 { "" } else { "s" };
                write!(
                    f,
                    "dropped {packets} kept packet{plural} ({})",
                    reason.label()
                )
            }
            QpEvent::TimedOut { psn, retries_left } => {
                let plural = if retries_left == 1 { "y" } else { "ies" };
                write!(
                    f,
                    "no response to PSN {psn} within the local ACK timeout, {retries_left} \
                     retr{plural} left"
                )
            }
            QpEvent::ResponseLate { psn } => write!(f, "the response to PSN {psn} is late"),
            QpEvent::RnrTimerEnded => f.write_str("the RNR timer has ended"),
            QpEvent::SlowedDown { kbit_per_sec } => {
                let mbit = f64::from(kbit_per_sec) / 1000.0;
                write!(f, "the CNP has reduced the rate to {mbit:.1} Mb/s")
            }
            QpEvent::StateChanged { from, to } => {
                write!(f, "state {} to {}", from.name(), to.name())
            }
            ref other => write!(f, "{other:?}"),
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
