//! What comes back: responses to READs and atomics, and how their loss is found out.

use super::Requester;
use super::credit::credits_of;
use crate::counters::{DropReason, Stat};
use crate::qp::{Core, Cx, Fault, sgl};
use crate::seq::Seq;
use crate::wr::{SendOp, WcStatus};
use roce_wire::{Packet, Position};
use std::collections::VecDeque;

/// READ and atomic requests under way, oldest first: each with the PSNs of its
/// responses. They keep their bounds when they are sent again, since a responder
/// answers a duplicate from what it noted about the original (IBTA 1.7, 9.7.5.1.3).
#[derive(Debug, Default)]
pub(super) struct Fetches {
    open: VecDeque<Fetch>,
    max: usize,
    /// A gap among responses that led to a retransmission.
    gap: Option<Gap>,
}

#[derive(Clone, Copy, Debug)]
struct Fetch {
    first: Seq,
    last: Seq,
}

/// What shows a gap for the first time is its `witness`. After the missing response
/// was asked for again, those that come with larger PSNs may still be from before,
/// in whatever order the network delivers them; one at the witness's PSN or before
/// is of what was sent again, and shows that the missing one was lost once more.
/// An acknowledgement at the witness's PSN shows nothing: a peer may send one for
/// each duplicate that it gets (Soft-RoCE does), all with the PSN of its newest.
#[derive(Clone, Copy, Debug)]
struct Gap {
    missing: Seq,
    witness: Seq,
}

/// What shows that a response is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A positive acknowledgement, perhaps one of many.
    Ack,
    /// A response or a NAK, which a peer sends once for each time it is asked.
    Answer,
}

impl Fetches {
    pub(super) fn new(max: u8) -> Self {
        Self {
            open: VecDeque::new(),
            max: usize::from(max),
            gap: None,
        }
    }

    /// Changes how many may be open from now on.
    pub(super) fn set_max(&mut self, max: u8) {
        self.max = usize::from(max);
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.gap = None;
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.max
    }

    /// The last PSN of the request that `at` belongs to.
    pub(super) fn find(&self, at: Seq) -> Option<Seq> {
        let fetch = self
            .open
            .iter()
            .find(|fetch| fetch.first <= at && at <= fetch.last)?;
        Some(fetch.last)
    }

    /// How far a new request from `from` should reach: half of the window, so that
    /// the next can be under way meanwhile; all of it if there can't be a next.
    pub(super) fn chunk(&self, from: Seq, last: Seq, window: u64) -> Seq {
        let packets = if self.max > 1 {
            (window / 2).max(1)
        } else {
            window
        };
        last.min(from + (packets - 1))
    }

    pub(super) fn push(&mut self, first: Seq, last: Seq) {
        self.open.push_back(Fetch { first, last });
    }

    /// The oldest PSN whose response is missing, given that everything before `una`
    /// is there.
    pub(super) fn first_open(&self) -> Option<Seq> {
        self.open.front().map(|fetch| fetch.first)
    }

    /// Everything before `una` has arrived.
    pub(super) fn retire(&mut self, una: Seq) {
        while self.open.front().is_some_and(|fetch| fetch.last < una) {
            self.open.pop_front();
        }
        if let Some(front) = self.open.front_mut() {
            front.first = front.first.max(una);
        }
        self.gap = None;
    }

    /// Forgets what was known about a gap: after a timeout, everything is new.
    pub(super) fn forget_gap(&mut self) {
        self.gap = None;
    }

    /// A packet at `at` shows that `missing` was lost. Whether that is news.
    fn note_gap(&mut self, missing: Seq, at: Seq, from: Evidence) -> bool {
        let known = self.gap.is_some_and(|gap| {
            gap.missing == missing
                && (at > gap.witness || from == Evidence::Ack && at == gap.witness)
        });
        if !known {
            self.gap = Some(Gap {
                missing,
                witness: at,
            });
        }
        !known
    }
}

impl Requester {
    /// Takes a packet of a READ response, or the answer to a FLUSH or ATOMIC WRITE.
    pub(super) fn receive_read_response(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Fault> {
        let Some(at) = self.place_in_sequence(cx, core, packet)? else {
            return Ok(());
        };
        let Some(wqe) = self.sq.front().copied() else {
            return Ok(());
        };
        let Some(last) = self.fetches.find(at) else {
            return Ok(());
        };
        let total = match wqe.op {
            SendOp::Read(_) => wqe.len,
            // The answer is a READ response of no bytes (Annex A19).
            _ if wqe.op.is_placement() => 0,
            // rule: 9.7.6.1-response-kind
            // rule: 9.9.2-bad-response
            _ => return Err(Fault::Send(WcStatus::BadResponse)),
        };
        let mtu = core.config.mtu();
        let offset = (at - wqe.first) * mtu as u64;
        let rest = usize::try_from(u64::from(total) - offset).unwrap_or(mtu);
        // rule: 9.7.6.1-response-end
        let ends = matches!(
            packet.bth.opcode.position(),
            Position::Last | Position::Only
        );
        // rule: 9.7.6.1-response-length
        if packet.payload.len() != rest.min(mtu) || ends != (at == last) {
            return Err(Fault::Send(WcStatus::BadResponse));
        }
        let sges = self.sq.sges(0);
        // rule: 9.4.4-read-scatter
        if sgl::scatter(cx.memory, core.pd, sges, offset, packet.payload).is_err() {
            // rule: 9.9.2-fetch-protection
            return Err(Fault::Send(WcStatus::LocalProtectionError));
        }
        self.advance(cx, core, at.next())?;
        self.update_credit_from(packet);
        Ok(())
    }

    /// Takes the answer to an atomic.
    pub(super) fn receive_atomic_ack(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Fault> {
        let Some(at) = self.place_in_sequence(cx, core, packet)? else {
            return Ok(());
        };
        let (Some(wqe), Some(ack)) = (self.sq.front(), packet.ext.atomic_ack) else {
            return Ok(());
        };
        // rule: 9.7.6.1-response-kind
        if !wqe.op.is_atomic() {
            return Err(Fault::Send(WcStatus::BadResponse));
        }
        // The value is big-endian on the wire and the host's own in memory.
        // rule: 9.4.5-result-scattered
        let original = ack.original.to_ne_bytes();
        if sgl::scatter(cx.memory, core.pd, self.sq.sges(0), 0, &original).is_err() {
            return Err(Fault::Send(WcStatus::LocalProtectionError));
        }
        self.advance(cx, core, at.next())?;
        self.update_credit_from(packet);
        Ok(())
    }

    /// Where a response belongs, if it is the next that is waited for. A response
    /// acknowledges all requests before its own (IBTA 1.7, 9.7.5.1.2).
    fn place_in_sequence(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<Option<Seq>, Fault> {
        let at = self.una.nearest(packet.bth.psn);
        // rule: 9.7.5.1.4-ghost-response
        if at >= self.max {
            cx.counters.drop(DropReason::GhostAck);
            return Ok(None);
        }
        if at < self.una {
            // rule: 9.7.6.1-duplicate-response
            cx.counters.drop(DropReason::DuplicateResponse);
            return Ok(None);
        }
        if self.fetches.find(at).is_none() {
            // rule: 9.7.6.1-response-unasked
            cx.counters.drop(DropReason::UnexpectedResponse);
            return Ok(None);
        }
        // rule: 9.7.6.1-response-completes
        if at > self.una && !self.acknowledge_through(cx, core, at.prev(), Evidence::Answer)? {
            // rule: 9.7.6.1-response-gap
            cx.counters.drop(DropReason::ResponseGap);
            return Ok(None);
        }
        Ok(Some(at))
    }

    /// What came with PSN `at` shows that the response at `una` was lost.
    // rule: 9.7.6.1-implied-nak
    pub(super) fn implied_nak(
        &mut self,
        cx: &mut Cx<'_>,
        at: Seq,
        from: Evidence,
    ) -> Result<(), Fault> {
        if !self.fetches.note_gap(self.una, at, from) {
            return Ok(());
        }
        cx.counters.count(Stat::ImpliedNaks);
        if !self.retry.try_again(cx.now) {
            return Err(Fault::Send(WcStatus::RetryExceeded));
        }
        self.window.on_loss();
        self.go_back(self.una);
        Ok(())
    }

    fn update_credit_from(&mut self, packet: &Packet<'_>) {
        if let Some(credits) = credits_of(packet) {
            self.update_credit(credits);
        }
    }
}
