//! The word of an event.
//!
//! ```text
//!   bit 0        8         16               32                56         64
//!       │ kind   │ opcode  │ bytes          │ PSN             │ syndrome │  a packet
//!       │ kind   │ opcode  │ packets        │ last PSN        │ 1        │  a run of packets
//!       │ kind   │ opcode  │                │ bytes, count                │  other events
//! ```
//!
//! A run is of packets in the middle of a message, which have no syndrome.

use super::event::{QpEvent, Verdict};
use crate::counters::DropReason;
use crate::kind::QpState;
use crate::wr::WcOpcode;
use roce_wire::{Headers, Opcode, Psn, Syndrome};

/// An event in one word; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

const POSTED_SEND: u8 = 1;
const POSTED_RECEIVES: u8 = 2;
const SENT: u8 = 3;
const SENT_AGAIN: u8 = 4;
const UNSENDABLE: u8 = 5;
const TIMED_OUT: u8 = 8;
const RESPONSE_LATE: u8 = 9;
const RNR_TIMER_ENDED: u8 = 10;
const SLOWED_DOWN: u8 = 11;
const STATE_CHANGED: u8 = 12;
const MODIFY_REFUSED: u8 = 13;
const POSTS_REFUSED: u8 = 14;
/// A received packet; the verdict is added.
const RECEIVED: u8 = 64;
const DUPLICATE: u8 = RECEIVED + 1;
const KEPT_OUT_OF_ORDER: u8 = RECEIVED + 2;
const DENIED: u8 = RECEIVED + 3;
/// A packet that was dropped; the reason is added.
const DROPPED: u8 = RECEIVED + 4;
/// Kept packets that were dropped; the reason is added.
const DROPPED_KEPT: u8 = 160;

const _: () = assert!(DROPPED as usize + DropReason::ALL.len() <= DROPPED_KEPT as usize);
const _: () = assert!(DROPPED_KEPT as usize + DropReason::ALL.len() <= 256);

const OPCODE: u32 = 8;
const BYTES: u32 = 16;
const PSN: u32 = 32;
const COUNT: u32 = 32;
const SYNDROME: u32 = 56;

/// Marks a run of packets.
const RUN: u64 = 1 << SYNDROME;
/// The most packets of a run.
const MOST_PACKETS: u64 = 0xffff;
/// What tells a packet's place in the sequence: kind, opcode and PSN.
const SEQUENCE: u64 = 0xff | 0xff << OPCODE | 0xff_ffff << PSN;

impl Entry {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    fn packet(kind: u8, opcode: Opcode, psn: Psn, bytes: usize) -> Self {
        // A packet with its headers fits in a UDP datagram.
        let bytes = bytes as u16;
        Self(
            u64::from(kind)
                | u64::from(opcode.byte()) << OPCODE
                | u64::from(bytes) << BYTES
                | u64::from(psn.get()) << PSN,
        )
    }

    #[inline(always)]
    fn counted(kind: u8, opcode: u8, count: u32) -> Self {
        Self(u64::from(kind) | u64::from(opcode) << OPCODE | u64::from(count) << COUNT)
    }

    /// A packet that was sent.
    #[inline(always)]
    pub(crate) fn sent(opcode: Opcode, psn: Psn, bytes: usize) -> Self {
        Self::packet(SENT, opcode, psn, bytes)
    }

    /// Packets in the middle of a message, from this PSN on; at least one, and fewer than 2^16.
    pub(crate) fn sent_middle(opcode: Opcode, first: Psn, packets: u64) -> Self {
        let last = Psn::new(first.get().wrapping_add(packets as u32 - 1));
        Self(Self::packet(SENT, opcode, last, packets as usize).0 | RUN)
    }

    /// A packet that was received, and is accepted unless [`Entry::with_verdict`] is called.
    #[inline(always)]
    pub(crate) fn received(opcode: Opcode, psn: Psn, bytes: usize) -> Self {
        Self::packet(RECEIVED, opcode, psn, bytes)
    }

    #[inline(always)]
    pub(crate) fn posted_send(opcode: WcOpcode, bytes: u32) -> Self {
        Self::counted(POSTED_SEND, opcode as u8, bytes)
    }

    pub(crate) fn posted_receive() -> Self {
        Self::counted(POSTED_RECEIVES, 0, 1)
    }

    pub(crate) fn post_refused(opcode: WcOpcode) -> Self {
        Self::counted(POSTS_REFUSED, opcode as u8, 1)
    }

    pub(crate) fn modify_refused(from: QpState, to: QpState) -> Self {
        Self::counted(MODIFY_REFUSED, from as u8, to as u32)
    }

    pub(crate) fn dropped_kept(packets: u64, reason: DropReason) -> Self {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        Self::counted(DROPPED_KEPT + reason as u8, 0, packets)
    }

    pub(crate) fn timed_out(psn: Psn, retries_left: u8) -> Self {
        Self::counted(TIMED_OUT, retries_left, psn.get())
    }

    pub(crate) fn response_late(psn: Psn) -> Self {
        Self::counted(RESPONSE_LATE, 0, psn.get())
    }

    pub(crate) fn rnr_timer_ended() -> Self {
        Self::counted(RNR_TIMER_ENDED, 0, 0)
    }

    /// `rate` is in bits a second.
    pub(crate) fn slowed_down(rate: f64) -> Self {
        Self::counted(SLOWED_DOWN, 0, (rate / 1e3) as u32)
    }

    pub(crate) fn state_changed(from: QpState, to: QpState) -> Self {
        Self::counted(STATE_CHANGED, from as u8, to as u32)
    }

    fn kind(self) -> u8 {
        self.0 as u8
    }

    fn opcode(self) -> u8 {
        (self.0 >> OPCODE) as u8
    }

    fn with_kind(self, kind: u8) -> Self {
        Self(self.0 & !0xff | u64::from(kind))
    }

    fn count(self) -> u32 {
        (self.0 >> COUNT) as u32
    }

    fn bytes(self) -> u16 {
        (self.0 >> BYTES) as u16
    }

    fn psn(self) -> Psn {
        Psn::new((self.0 >> PSN) as u32)
    }

    /// Whether it is one received packet.
    pub(crate) fn is_received(self) -> bool {
        (RECEIVED..DROPPED_KEPT).contains(&self.kind())
    }

    pub(crate) fn with_verdict(self, verdict: Verdict) -> Self {
        self.with_kind(match verdict {
            Verdict::Accepted => RECEIVED,
            Verdict::Duplicate => DUPLICATE,
            Verdict::KeptOutOfOrder => KEPT_OUT_OF_ORDER,
            Verdict::Denied => DENIED,
            Verdict::Dropped(reason) => DROPPED + reason as u8,
        })
    }

    /// The same packet, as one that the port can't send.
    pub(crate) fn as_unsendable(self) -> Self {
        self.with_kind(UNSENDABLE)
    }

    /// The same packet, as a retransmission.
    pub(crate) fn as_retransmitted(self) -> Self {
        match self.kind() {
            SENT => self.with_kind(SENT_AGAIN),
            _ => self,
        }
    }

    /// The same packet with its syndrome; that of an ACK is not kept.
    pub(crate) fn with_syndrome(self, syndrome: Syndrome) -> Self {
        match syndrome {
            Syndrome::Ack(_) => self,
            other => Self(self.0 | u64::from(other.byte()) << SYNDROME),
        }
    }

    /// One entry for this one and `next`, if both are packets with the same opcode that were sent
    /// or accepted one after the other.
    #[inline]
    pub(crate) fn merged_with(self, next: Self) -> Option<Self> {
        let more = next.packets();
        let packets = self.packets() + more;
        let is_packet = matches!(self.kind(), SENT | SENT_AGAIN | RECEIVED);
        // Bits beyond the PSN's are not compared.
        let after = self.0.wrapping_add(more << PSN);
        let follows = (after ^ next.0) & SEQUENCE == 0;
        if !is_packet || !follows || packets > MOST_PACKETS {
            return None;
        }
        let rest = next.0 & !(MOST_PACKETS << BYTES);
        Some(Self(rest | RUN | packets << BYTES))
    }

    /// The number of packets that it is.
    #[inline]
    fn packets(self) -> u64 {
        match self.0 & RUN {
            0 => 1,
            _ => self.0 >> BYTES & MOST_PACKETS,
        }
    }

    /// The same with one more request, if `other` is the same but for its count.
    #[inline]
    pub(crate) fn with_another(self, other: Self) -> Option<Self> {
        let is_alike = self.kind() == other.kind() && self.opcode() == other.opcode();
        let count = self.count().saturating_add(1);
        is_alike.then(|| Self::counted(self.kind(), self.opcode(), count))
    }

    /// The event; `None` if there is none.
    pub(crate) fn decode(self) -> Option<QpEvent> {
        let low = self.opcode();
        let (bytes, psn) = (self.bytes(), self.psn());
        Some(match self.kind() {
            POSTED_SEND => QpEvent::PostedSend {
                opcode: *WcOpcode::ALL.get(usize::from(low))?,
                bytes: self.count(),
            },
            POSTED_RECEIVES => QpEvent::PostedReceives {
                count: self.count(),
            },
            POSTS_REFUSED => QpEvent::PostsRefused {
                opcode: *WcOpcode::ALL.get(usize::from(low))?,
                count: self.count(),
            },
            MODIFY_REFUSED => QpEvent::ModifyRefused {
                from: state(u32::from(low))?,
                to: state(self.count())?,
            },
            kind @ (SENT | SENT_AGAIN) if self.0 & RUN != 0 && !self.has_aeth() => {
                QpEvent::SentMiddle {
                    opcode: Opcode::from_byte(low)?,
                    psn: self.first_psn(),
                    packets: bytes,
                    again: kind == SENT_AGAIN,
                }
            }
            kind @ (SENT | SENT_AGAIN) => QpEvent::Sent {
                opcode: Opcode::from_byte(low)?,
                psn,
                bytes,
                syndrome: self.syndrome(),
                again: kind == SENT_AGAIN,
            },
            UNSENDABLE => QpEvent::Unsendable {
                opcode: Opcode::from_byte(low)?,
                psn,
                bytes,
            },
            TIMED_OUT => QpEvent::TimedOut {
                psn,
                retries_left: low,
            },
            RESPONSE_LATE => QpEvent::ResponseLate { psn },
            RNR_TIMER_ENDED => QpEvent::RnrTimerEnded,
            SLOWED_DOWN => QpEvent::SlowedDown {
                kbit_per_sec: self.count(),
            },
            STATE_CHANGED => QpEvent::StateChanged {
                from: state(u32::from(low))?,
                to: state(self.count())?,
            },
            RECEIVED if self.0 & RUN != 0 && !self.has_aeth() => QpEvent::ReceivedMiddle {
                opcode: Opcode::from_byte(low)?,
                psn: self.first_psn(),
                packets: bytes,
            },
            kind @ RECEIVED..DROPPED_KEPT => QpEvent::Received {
                opcode: Opcode::from_byte(low)?,
                psn,
                bytes,
                syndrome: self.syndrome(),
                verdict: verdict(kind)?,
            },
            kind @ DROPPED_KEPT.. => QpEvent::DroppedKept {
                packets: u16::try_from(self.count()).unwrap_or(u16::MAX),
                reason: reason(kind - DROPPED_KEPT)?,
            },
            _ => return None,
        })
    }

    /// The first PSN of a run.
    fn first_psn(self) -> Psn {
        let before = u32::from(self.bytes()).wrapping_sub(1);
        Psn::new(self.psn().get().wrapping_sub(before))
    }

    /// Whether it is a packet whose opcode has a syndrome.
    fn has_aeth(self) -> bool {
        let opcode = Opcode::from_byte(self.opcode());
        opcode.is_some_and(|opcode| opcode.info().headers.contains(Headers::AETH))
    }

    fn syndrome(self) -> Option<Syndrome> {
        self.has_aeth().then(|| match (self.0 >> SYNDROME) as u8 {
            0 => Syndrome::default(),
            byte => Syndrome::from_byte(byte),
        })
    }
}

fn verdict(kind: u8) -> Option<Verdict> {
    Some(match kind {
        RECEIVED => Verdict::Accepted,
        DUPLICATE => Verdict::Duplicate,
        KEPT_OUT_OF_ORDER => Verdict::KeptOutOfOrder,
        DENIED => Verdict::Denied,
        kind => Verdict::Dropped(reason(kind.checked_sub(DROPPED)?)?),
    })
}

fn reason(number: u8) -> Option<DropReason> {
    DropReason::ALL.get(usize::from(number)).copied()
}

/// The state with this number.
fn state(number: u32) -> Option<QpState> {
    let all = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];
    all.into_iter().find(|state| *state as u32 == number)
}
