//! Responses to READs and atomics.

use super::Requester;
use super::credit::credits_of;
use crate::cause::Cause;
use crate::counters::DropReason;
use crate::qp::{Core, Cx, QpFailure, sgl};
use crate::seq::Seq;
use crate::wr::{SendOp, WcStatus};
use roce_wire::{Operation, Packet, Position};
use std::collections::VecDeque;

/// The most packets of a READ that is requested in pairs. The datagrams of a longer one are nearly
/// full anyway.
const MAX_PAIRED: u64 = 16;

/// READs are requested in pairs if as many pairs as may be outstanding have at least this many
/// bytes. Otherwise, the pairs would limit how much is in flight.
const LEAST_IN_PAIRS: usize = 128 << 10;

/// Outstanding READ and atomic requests, oldest first, each with the PSNs of its responses. An
/// entry keeps the bounds of the original request even if only a part of it is requested again: a
/// responder answers a duplicate from the saved parameters of the original (IBTA 1.7, 9.7.5.1.3).
#[derive(Debug, Default)]
pub(super) struct Fetches {
    open: VecDeque<Fetch>,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Fetch {
    first: Seq,
    last: Seq,
    /// A part of it that ends before `last` was requested again.
    in_parts: bool,
}

impl Fetches {
    /// Changes the number of requests that may be open.
    pub(super) fn set_max(&mut self, max: u8) {
        self.max = usize::from(max);
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.max
    }

    /// The last PSN of the request that `at` belongs to.
    pub(super) fn find(&self, at: Seq) -> Option<Seq> {
        // Without this, each new request would search all of the open ones.
        if self.open.back().is_none_or(|newest| newest.last < at) {
            return None;
        }
        let fetch = self
            .open
            .iter()
            .find(|fetch| fetch.first <= at && at <= fetch.last)?;
        Some(fetch.last)
    }

    /// Notes that a part of the request that `at` belongs to is requested again. The part ends
    /// before the request does.
    pub(super) fn split(&mut self, at: Seq) {
        for fetch in &mut self.open {
            fetch.in_parts |= fetch.first <= at && at <= fetch.last;
        }
    }

    /// Whether the opcode of the READ response at `at`, the next one due, is legal, given whether
    /// it ends a message (`ends`). The last response of a request must end a message. An earlier
    /// one may end a message only if a part of the request was requested again.
    fn may_end(&self, at: Seq, ends: bool) -> bool {
        self.open
            .front()
            .is_some_and(|fetch| ends == (at == fetch.last) || ends && fetch.in_parts)
    }

    /// The first PSN from `at` on that lacks its response.
    pub(super) fn open_from(&self, at: Seq) -> Option<Seq> {
        let fetch = self.open.iter().find(|fetch| fetch.last >= at)?;
        Some(fetch.first.max(at))
    }

    /// The last PSN of a new request for the responses from `from` on. `read` is the first and the
    /// last PSN of the READ. The request covers half of the window, so that the next one can be in
    /// flight at the same time, or all of the window if only one may be outstanding.
    ///
    /// A READ of a few packets is requested in pairs: first and last responses have an AETH,
    /// and those between have none. The responses to pairs are of one length, so a port that joins
    /// packets of one length in a datagram can join them all:
    /// [ADR 60](../../../../docs/adr/0060-trains-of-writes.md).
    pub(super) fn chunk(&self, from: Seq, read: (Seq, Seq), window: u64, mtu: usize) -> Seq {
        let (first, last) = read;
        let in_pairs = last - first < MAX_PAIRED && self.max * 2 * mtu >= LEAST_IN_PAIRS;
        let packets = match self.max {
            _ if in_pairs => window.min(2),
            0 | 1 => window,
            _ => (window / 2).max(1),
        };
        last.min(from + (packets - 1))
    }

    pub(super) fn push(&mut self, first: Seq, last: Seq) {
        self.open.push_back(Fetch {
            first,
            last,
            in_parts: false,
        });
    }

    /// The oldest PSN whose response is missing.
    pub(super) fn first_open(&self) -> Option<Seq> {
        self.open.front().map(|fetch| fetch.first)
    }

    /// Removes the requests that end before `una`.
    pub(super) fn retire(&mut self, una: Seq) {
        while self.open.front().is_some_and(|fetch| fetch.last < una) {
            self.open.pop_front();
        }
        if let Some(front) = self.open.front_mut() {
            front.first = front.first.max(una);
        }
    }
}

impl Requester {
    /// Handles a packet of a READ response, or the response to an atomic, FLUSH or ATOMIC WRITE. A
    /// response acknowledges all requests before its own (IBTA 1.7, 9.7.5.1.2).
    pub(super) fn receive_response(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        port: u16,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        // rule: 9.7.5.1.4-ghost-response
        if at >= self.max {
            cx.drop(DropReason::GhostAck);
            return Ok(());
        }
        if at < self.una {
            // rule: 9.7.6.1-duplicate-response
            self.clock.on_duplicate_response();
            self.share_slack(cx);
            cx.drop(DropReason::DuplicateResponse);
            return Ok(());
        }
        if self.fetches.find(at).is_none() {
            // rule: 9.7.6.1-response-unasked
            cx.drop(DropReason::UnexpectedResponse);
            return Ok(());
        }
        // rule: 9.7.6.1-response-completes
        let due = self.fetches.first_open().map_or(at, |open| open.min(at));
        self.advance(cx, core, due)?;
        if due < at {
            return self.receive_out_of_order(cx, core, at, port, packet);
        }
        self.place_response(cx, core, packet, at)?;
        self.catch_up(cx, core)
    }

    /// Handles the response that is due, which is at `at`.
    pub(super) fn place_response(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        at: Seq,
    ) -> Result<(), QpFailure> {
        match packet.bth.opcode.operation() {
            Operation::ReadResponse => self.place_read_response(cx, core, packet, at),
            _ => self.place_atomic_ack(cx, core, packet, at),
        }
    }

    fn place_read_response(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        at: Seq,
    ) -> Result<(), QpFailure> {
        let Some(wqe) = self.sq.front().copied() else {
            return Ok(());
        };
        let total = match wqe.request.op {
            SendOp::Read(_) => wqe.request.len,
            // The response is a READ response of no bytes (Annex A19).
            _ if wqe.request.op.is_placement() => 0,
            // rule: 9.7.6.1-response-kind
            // rule: 9.9.2-bad-response
            _ => return Err(bad_response(cx, packet)),
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
        if packet.payload.len() != rest.min(mtu) || !self.fetches.may_end(at, ends) {
            return Err(bad_response(cx, packet));
        }
        let sges = self.sq.sges(0);
        // rule: 9.4.4-read-scatter
        if sgl::scatter(&cx.nic.memory, core.pd, sges, offset, packet.payload).is_err() {
            // rule: 9.9.2-fetch-protection
            return Err(QpFailure::Send(WcStatus::LocalProtectionError));
        }
        self.advance(cx, core, at.next())?;
        if !ends {
            cx.observe.middle();
        }
        self.update_credit_from(packet);
        Ok(())
    }

    fn place_atomic_ack(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        at: Seq,
    ) -> Result<(), QpFailure> {
        let (Some(wqe), Some(ack)) = (self.sq.front(), packet.ext.atomic_ack) else {
            return Ok(());
        };
        // rule: 9.7.6.1-response-kind
        if !wqe.request.op.is_atomic() {
            return Err(bad_response(cx, packet));
        }
        // The value is big-endian on the wire and native-endian in memory.
        // rule: 9.4.5-result-scattered
        let original = ack.original.to_ne_bytes();
        if sgl::scatter(&cx.nic.memory, core.pd, self.sq.sges(0), 0, &original).is_err() {
            return Err(QpFailure::Send(WcStatus::LocalProtectionError));
        }
        self.advance(cx, core, at.next())?;
        self.update_credit_from(packet);
        Ok(())
    }

    fn update_credit_from(&mut self, packet: &Packet<'_>) {
        if let Some(credits) = credits_of(packet) {
            self.update_credit(credits);
        }
    }
}

/// The failure of a QP whose peer sent this response.
#[cold]
fn bad_response(cx: &mut Cx<'_>, packet: &Packet<'_>) -> QpFailure {
    cx.observe.failed(Cause::BadResponse {
        opcode: packet.bth.opcode,
        len: packet.payload.len(),
    });
    QpFailure::Send(WcStatus::BadResponse)
}
