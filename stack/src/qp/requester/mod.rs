//! The requester: from the send queue to the wire, and from responses to
//! completions (IBTA 1.7, 9.7.3 to 9.7.6).
//!
//! Three sequence numbers rule it:
//!
//! ```text
//!   una            nxt            max                assigned
//!    │ outstanding  │ to send again │ not sent yet      │
//! ───┴──────────────┴───────────────┴───────────────────┴──►
//! ```
//!
//! Everything before `una` is acknowledged. `nxt` is what the next packet carries;
//! it falls back to `una` for a retransmission (go-back-N) and can't pass `max`
//! without sending something for the first time. Each request owns the PSNs
//! `first .. end` from the moment it is posted; a READ owns those of its responses
//! (IBTA 1.7, 9.7.3.1).
//!
//! Each file beside this one is one thing a requester does: [`transmit`] decides what is sent
//! next, [`packets`] sends it, [`stretch`] what is in the middle of long messages, [`ack`] takes acknowledgements,
//! [`fetch`] takes READ and atomic responses, [`early`] keeps those that come before their
//! turn and asks for what is missing, [`recovery`] sends again only what is missing,
//! [`clock`] knows when an answer is late, [`retry`] waits and tries again, [`round_trip`]
//! measures, [`credit`] counts the peer's receives, [`local`] does what needs no packet.

mod ack;
mod clock;
mod credit;
mod early;
mod fetch;
mod held;
mod local;
mod packets;
mod placement;
mod recovery;
mod retry;
mod round_trip;
mod stretch;
mod transmit;

use super::attr::QpConfig;
use super::posted::{Posted, message_len};
use super::window::Window;
use super::{Core, Cx, Fault, Report};
use crate::congestion::Acked;
use crate::counters::{DropReason, Stat};
use crate::ids::Srqn;
use crate::queue::{QueueLimits, Room, Source, WorkQueue};
use crate::seq::Seq;
use crate::time::{Duration, Instant};
use crate::transmit::Position;
use crate::wr::{PostError, SendRequest, Target, WcStatus};
use clock::Clock;
use core::hint::cold_path;
use credit::Credit;
use early::EarlyResponses;
use fetch::Fetches;
use held::Held;
use recovery::Recovery;
use retry::Retry;
use roce_wire::{Operation, Packet, Psn, XrcEth};

/// A posted send request.
#[derive(Clone, Copy, Debug)]
struct SendWqe {
    request: Posted,
    /// Its first PSN.
    first: Seq,
    /// How many PSNs it owns: at least one, unless it is done without packets.
    packets: u64,
    /// Whether a request without packets has been done.
    done: bool,
    /// How many receives of the peer it and all before it consume.
    receives: u64,
    /// The SRQ of the peer that it is for. (XRC only.)
    srq: Option<Srqn>,
}

impl SendWqe {
    /// One past its last PSN.
    fn end(&self) -> Seq {
        self.first + self.packets
    }

    /// Its last PSN.
    fn last(&self) -> Seq {
        self.end().prev()
    }

    /// The header that names the SRQ of the peer (IBTA 1.7, annex A14).
    fn xrceth(&self) -> Option<XrcEth> {
        self.srq.map(|srq| XrcEth { srqn: srq.wire() })
    }

    /// Whether nothing is left to do for it, given that everything before `una` is
    /// acknowledged.
    fn is_over(&self, una: Seq) -> bool {
        self.end() <= una && (self.done || !self.request.op.is_local())
    }
}

/// What has become of packets since somebody asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    pub(crate) acked: Acked,
    /// Some were lost.
    pub(crate) lost: bool,
    /// Nothing came back for a whole local ACK timeout.
    pub(crate) timed_out: bool,
}

/// The sending half of a QP.
#[derive(Debug)]
pub(crate) struct Requester {
    sq: WorkQueue<SendWqe>,
    una: Seq,
    nxt: Seq,
    max: Seq,
    assigned: Seq,
    /// The index in `sq` of the request that owns `nxt`; its length if none does.
    cursor: usize,
    /// Receives of the peer that all requests posted so far consume.
    receives: u64,
    /// Packets sent since one asked for an acknowledgement.
    unrequested: u64,
    /// One past the last PSN that may be in flight, given what other QPs have.
    shared_end: Seq,
    /// The next packet is the last before others have their turn.
    last_of_turn: bool,
    fetches: Fetches,
    early: EarlyResponses,
    credit: Credit,
    retry: Retry,
    recovery: Recovery,
    clock: Clock,
    window: Window,
    news: News,
    /// State SQD was entered and its end not told yet.
    drain_pending: bool,
    held: Held,
}

impl Requester {
    pub(crate) fn new(limits: QueueLimits, max_inline: usize) -> Self {
        let zero = Seq::initial(Psn::new(0));
        Self {
            sq: WorkQueue::with_inline(limits, max_inline),
            una: zero,
            nxt: zero,
            max: zero,
            assigned: zero,
            cursor: 0,
            receives: 0,
            unrequested: 0,
            shared_end: zero,
            last_of_turn: false,
            fetches: Fetches::default(),
            early: EarlyResponses::default(),
            credit: Credit::default(),
            retry: Retry::default(),
            recovery: Recovery::default(),
            clock: Clock::default(),
            window: Window::new(0, 256),
            news: News::default(),
            drain_pending: false,
            held: Held::default(),
        }
    }

    /// RTR to RTS.
    pub(crate) fn start(&mut self, config: &QpConfig, window_bytes: usize) {
        // rule: 9.7.1-initial-psn
        let first = Seq::initial(config.sq_psn);
        self.reset();
        (self.una, self.nxt, self.max, self.assigned) = (first, first, first, first);
        self.fetches.set_max(config.max_rd_atomic);
        self.retry = Retry::new(config);
        self.recovery = Recovery::default();
        self.clock = Clock::new(config);
        self.window = Window::new(window_bytes, config.mtu());
        self.news = News::default();
    }

    /// What has become of packets since this was last asked.
    pub(crate) fn take_news(&mut self) -> News {
        let mut news = core::mem::take(&mut self.news);
        news.acked.round_trip = self.clock.trips.newest.take();
        news.lost = self.window.take_lost();
        news
    }

    /// The usual round trip and the shortest, if one was measured.
    pub(crate) fn round_trips(&self) -> (Option<Duration>, Option<Duration>) {
        (self.clock.trips.smoothed, self.clock.trips.shortest)
    }

    /// Congestion control lets so many packets be in flight; any number if `None`.
    pub(crate) fn limit_window(&mut self, packets: Option<u64>) {
        self.window.allow(packets);
    }

    /// Takes over attributes that were changed in SQD.
    pub(crate) fn reconfigure(&mut self, config: &QpConfig) {
        self.fetches.set_max(config.max_rd_atomic);
        self.retry.reconfigure(config);
    }

    /// Forgets everything that was posted.
    pub(crate) fn reset(&mut self) {
        self.sq.clear();
        self.cursor = 0;
        self.receives = 0;
        self.unrequested = 0;
        (self.una, self.nxt, self.max) = (self.assigned, self.assigned, self.assigned);
        self.fetches.clear();
        self.early.clear();
        self.credit = Credit::default();
        self.retry.stop();
        self.recovery.cancel();
        self.clock.stop();
        self.drain_pending = false;
    }

    /// The PSN of the next packet that is not sent again.
    pub(crate) fn next_psn(&self) -> Psn {
        self.max.wire()
    }

    /// How many packets, or responses, the peer may have under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.max - self.una
    }

    /// The room of a request that completes.
    pub(crate) fn room(&self) -> Room {
        self.sq.room()
    }

    /// How many requests have not completed.
    pub(crate) fn len(&self) -> usize {
        self.sq.len()
    }

    /// Checks a request without posting it. Returns its length.
    // rule: 10.8.2-refused-nothing
    pub(crate) fn check(
        &self,
        core: &Core,
        request: &SendRequest<'_>,
        source: Source<'_>,
    ) -> Result<u32, PostError> {
        self.sq.check_source(source)?;
        let op = &request.op;
        let len = message_len(op, source)?;
        // rule: 10.7.3-atomic-length
        if op.is_word() && len != 8 {
            return Err(PostError::AtomicLength { bytes: len.into() });
        }
        // rule: 10.7.3-no-reads
        if op.is_fetch() && core.config.max_rd_atomic == 0 {
            return Err(PostError::NoReadsAllowed);
        }
        Ok(len)
    }

    /// Appends a request to the send queue.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        request: &SendRequest<'_>,
        source: Source<'_>,
    ) -> Result<(), PostError> {
        let len = self.check(core, request, source)?;
        let packets = match request.op.is_local() {
            true => 0,
            // rule: 9.7.2-no-bytes
            false => u64::from(len).div_ceil(core.config.mtu() as u64).max(1),
        };
        let receives = self.receives + u64::from(request.op.consumes_receive());
        let srq = match request.target {
            Target::Srq(srq) => Some(srq),
            Target::Peer | Target::Datagram(_) => None,
        };
        let wqe = SendWqe {
            request: Posted::new(core, request, len),
            first: self.assigned,
            packets,
            done: false,
            receives,
            srq,
        };
        self.sq.push_checked(wqe, source);
        self.assigned = wqe.end();
        self.receives = receives;
        Ok(())
    }

    /// Takes a response.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Fault> {
        match packet.bth.opcode.operation() {
            Operation::Acknowledge => self.receive_ack(cx, core, packet),
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                self.receive_response(cx, core, packet)
            }
            _ => {
                cx.counters.drop(DropReason::Unsupported);
                Ok(())
            }
        }
    }

    /// Whether sending may get further than it has.
    pub(crate) fn wants_to_send(&self) -> bool {
        let some = self.cursor < self.sq.len() || self.recovery.due().is_some();
        some && !self.retry.is_waiting_for_receiver()
    }

    /// Brings near what is sent next.
    pub(crate) fn foresee_turn(&self) {
        self.sq.bring_near(self.cursor);
    }

    /// The place before which the port may forget all packets, if it keeps any.
    pub(crate) fn take_acknowledged(&mut self) -> Option<Position> {
        let una = self.una;
        self.held.take(una).then(|| una.position()).flatten()
    }

    /// Nothing that was sent is retransmitted any more. Returns whether the port keeps
    /// any of it.
    pub(crate) fn end_flow(&mut self) -> bool {
        self.held.end()
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.retry.deadline(), self.clock.deadline()) {
            (Some(retry), Some(clock)) => Some(retry.min(clock)),
            (retry, clock) => retry.or(clock),
        }
    }

    /// State SQD begins: [`Requester::take_drained`] will tell when it is done.
    pub(crate) fn begin_drain(&mut self) {
        self.drain_pending = true;
    }

    /// Whether all that was begun has just completed. True once per drain.
    // rule: 10.3.1-sqd-event
    pub(crate) fn take_drained(&mut self) -> bool {
        let begun = self.sq.front().is_some_and(|wqe| wqe.first < self.max);
        let drained = self.drain_pending && !begun;
        self.drain_pending &= !drained;
        drained
    }

    /// Completes the oldest request with `status`. `Ok(false)` if there is none.
    // rule: 11.6.2-flushed
    pub(crate) fn complete_front(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<bool, Fault> {
        let Some(wqe) = self.sq.pop() else {
            return Ok(false);
        };
        self.cursor = self.cursor.saturating_sub(1);
        wqe.request.complete(cx, core, status, &self.sq)?;
        Ok(true)
    }

    /// Advances `una` to `to`, completing every request that ends there or before.
    /// What is advanced over must be free of READs and atomics without response.
    // rule: 9.7.6.1-partial
    fn advance(&mut self, cx: &mut Cx<'_>, core: &Core, to: Seq) -> Result<(), Fault> {
        if to <= self.una {
            return Ok(());
        }
        let before = self.una;
        self.una = to;
        let acked = &mut self.news.acked;
        acked.packets += to - before;
        acked.in_flight = acked.in_flight.max(self.max - before);
        if self.held.on_progress() {
            cx.report = Some(Report::Acknowledged);
        }
        self.fetches.retire(to);
        self.complete_finished(cx, core)?;
        if self.nxt < to {
            cold_path();
            // rule: 10.8.6-own-memory-back
            // What was to be sent again has been received after all.
            if self.recovery.timed_out && !self.recovery.holds() {
                cx.counters.count(Stat::SpuriousTimeouts);
                self.window.undo_timeout();
            }
            self.nxt = to;
            self.cursor = 0;
        }
        self.window.on_ack(to - before);
        self.recovery.on_progress(to);
        self.early.on_progress(to);
        self.retry.on_progress(cx.now, self.una < self.max);
        self.clock.on_progress(cx.now, to, self.una < self.max);
        Ok(())
    }

    /// Completes the requests at the front that are over.
    fn complete_finished(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), Fault> {
        // rule: 9.5-completed-in-order
        while self.sq.front().is_some_and(|wqe| wqe.is_over(self.una)) {
            // rule: 10.8.6-after-ack
            self.complete_front(cx, core, WcStatus::Success)?;
        }
        Ok(())
    }

    /// Goes back to `to`: everything from there on is sent again.
    // rule: 9.7.3-same-again
    fn go_back(&mut self, to: Seq) {
        self.recovery.cancel();
        self.clock.distrust();
        if to >= self.nxt {
            return;
        }
        self.nxt = to;
        self.cursor = self.sq.partition_point(|wqe| wqe.end() <= to);
        self.unrequested = 0;
    }
}
