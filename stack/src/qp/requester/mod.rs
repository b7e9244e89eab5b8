//! The requester: turns send requests into packets, and responses into completions (IBTA 1.7, 9.7.3
//! to 9.7.6).
//!
//! Four sequence numbers describe its state:
//!
//! ```text
//!   una            nxt            max                assigned
//!    │ outstanding  │ to retransmit │ not sent yet      │
//! ───┴──────────────┴───────────────┴───────────────────┴──►
//! ```
//!
//! Everything before `una` is acknowledged. `nxt` is the PSN of the next packet; it falls back to
//! `una` for a retransmission (go-back-N), and passes `max` only by sending a packet for the first
//! time. Each request owns the PSNs `first .. end` from the moment it is posted; a READ owns those
//! of its responses (IBTA 1.7, 9.7.3.1).
//!
//! Each file beside this one is one task of a requester: [`transmit`] decides what is sent next,
//! [`packets`] sends it, [`written`] knows
//! which memory of the peer accepts WRITEs, [`memory_placement`] sends FLUSH and ATOMIC WRITE, [`stretch`] sends the
//! middle of long messages, [`ack`] handles acknowledgements, [`fetch`] handles READ and atomic
//! responses, [`out_of_order`] keeps out-of-order responses and requests missing ones, [`recovery`]
//! retransmits only what is missing, [`clock`] detects late responses, [`retry`] waits and retries,
//! [`round_trip`] measures round trips, [`credit`] counts the peer's receives, [`kept_packets`]
//! tracks the packets that the port keeps, [`local`] executes requests without packets.

mod ack;
mod cause;
mod clock;
mod credit;
mod fetch;
mod kept_packets;
mod local;
mod memory_placement;
mod out_of_order;
mod packets;
mod recovery;
mod retry;
mod round_trip;
mod stretch;
mod transmit;
mod written;

use super::attr::QpConfig;
use super::posted::{Posted, message_len};
use super::send_window::SendWindow;
use super::suspicion::{Gap, Suspicion};
use super::{Core, Cx, QpFailure, Report, Slack};
use crate::congestion::Acked;
use crate::counters::{DropReason, Stat};
use crate::ids::Srqn;
use crate::queue::{EntryGuard, PayloadSource, QueueLimits, WorkQueue};
use crate::seq::Seq;
use crate::time::{Duration, Instant};
use crate::transmit::{Position, Sequenced};
use crate::wr::{PostError, SendRequest, Target, WcStatus};
use clock::Clock;
use core::hint::cold_path;
use credit::Credit;
use fetch::Fetches;
use kept_packets::KeptPackets;
use out_of_order::OutOfOrderResponses;
use recovery::Recovery;
use retry::Retry;
use roce_wire::{Operation, Packet, Psn, XrcEth};
use written::Written;

/// A posted send request.
#[derive(Clone, Copy, Debug)]
struct SendWqe {
    request: Posted,
    /// Its first PSN.
    first: Seq,
    /// The number of PSNs that it owns: at least one, unless it needs no packets.
    packets: u64,
    /// Whether a request without packets has been executed.
    done: bool,
    /// Whether each of its packets is a message of its own on the wire: see
    /// [`Requester::sends_as_train`].
    is_train: bool,
    /// The number of the peer's receives that it and all requests before it consume.
    receives: u64,
    /// The peer's SRQ that the request is for. (XRC only.)
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

    /// Whether the request is finished, given that everything before `una` is acknowledged.
    fn is_over(&self, una: Seq) -> bool {
        self.end() <= una && (self.done || !self.request.op.is_local())
    }
}

/// Acknowledgements and losses since the last [`Requester::take_feedback`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    pub(crate) acked: Acked,
    /// Some packets were lost.
    pub(crate) lost: bool,
    /// No response arrived for a whole local ACK timeout.
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
    /// The index in `sq` of the request that owns `nxt`; the length of `sq` if none does.
    cursor: usize,
    /// The number of the peer's receives that all requests posted so far consume.
    receives: u64,
    /// Packets sent since the last one that asked for an acknowledgement.
    since_ack_req: u64,
    /// One past the last PSN that may be in flight. The QPs to one peer share this limit.
    shared_end: Seq,
    /// The next packet is the last of this turn.
    last_of_turn: bool,
    fetches: Fetches,
    out_of_order: OutOfOrderResponses,
    credit: Credit,
    retry: Retry,
    recovery: Recovery,
    clock: Clock,
    send_window: SendWindow,
    feedback: Feedback,
    /// The QP has entered state SQD, and its drain has not been reported yet.
    drain_pending: bool,
    kept_packets: KeptPackets,
    suspicion: Suspicion,
    /// The length of the longest request that has succeeded.
    longest_answered: u32,
    written: Written,
    /// FLUSHes have the ICRC that Soft-RoCE expects, which covers their headers twice.
    flush_as_soft_roce: bool,
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
            since_ack_req: 0,
            shared_end: zero,
            last_of_turn: false,
            fetches: Fetches::default(),
            out_of_order: OutOfOrderResponses::default(),
            credit: Credit::default(),
            retry: Retry::default(),
            recovery: Recovery::default(),
            clock: Clock::default(),
            send_window: SendWindow::new(0, 256),
            feedback: Feedback::default(),
            drain_pending: false,
            kept_packets: KeptPackets::default(),
            suspicion: Suspicion::default(),
            longest_answered: 0,
            written: Written::default(),
            flush_as_soft_roce: false,
        }
    }

    /// RTR to RTS.
    pub(crate) fn start(&mut self, config: &QpConfig, window_bytes: usize, slack: Option<Slack>) {
        // rule: 9.7.1-initial-psn
        let first = Seq::initial(config.sq_psn);
        self.reset();
        (self.una, self.nxt, self.max, self.assigned) = (first, first, first, first);
        self.fetches.set_max(config.max_rd_atomic);
        self.retry = Retry::new(config);
        self.recovery = Recovery::default();
        self.clock = Clock::new(config, slack);
        self.send_window = SendWindow::new(window_bytes, config.mtu());
        self.feedback = Feedback::default();
        self.suspicion = Suspicion::default();
        self.written = Written::default();
        self.flush_as_soft_roce = false;
    }

    /// Acknowledgements and losses since the last call.
    pub(crate) fn take_feedback(&mut self) -> Feedback {
        let mut feedback = core::mem::take(&mut self.feedback);
        feedback.acked.round_trip = self.clock.trips.newest.take();
        feedback.lost = self.send_window.take_lost();
        feedback
    }

    /// The smoothed and the shortest round trip, if one was measured.
    pub(crate) fn round_trips(&self) -> (Option<Duration>, Option<Duration>) {
        (self.clock.trips.smoothed, self.clock.trips.shortest)
    }

    /// Limits the packets in flight to `packets`, for congestion control; no limit if `None`.
    pub(crate) fn set_congestion_window(&mut self, packets: Option<u64>) {
        self.send_window.set_congestion_limit(packets);
    }

    /// Applies attributes that were changed in SQD.
    pub(crate) fn reconfigure(&mut self, config: &QpConfig) {
        self.fetches.set_max(config.max_rd_atomic);
        self.retry.reconfigure(config);
    }

    /// Forgets everything that was posted.
    pub(crate) fn reset(&mut self) {
        self.sq.clear();
        self.cursor = 0;
        self.receives = 0;
        self.since_ack_req = 0;
        (self.una, self.nxt, self.max) = (self.assigned, self.assigned, self.assigned);
        self.fetches.clear();
        self.out_of_order.clear();
        self.credit = Credit::default();
        self.retry.stop();
        self.recovery.cancel();
        self.clock.stop();
        self.drain_pending = false;
    }

    /// The length of the longest request that has succeeded since the QP was created; 0 if none has.
    pub(crate) fn longest_answered(&self) -> u32 {
        self.longest_answered
    }

    /// The PSN of the next packet that is not a retransmission.
    pub(crate) fn next_psn(&self) -> Psn {
        self.max.wire()
    }

    /// The number of packets, or responses, in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.max - self.una
    }

    /// The guard of the queue entry of a request that completes.
    pub(crate) fn entry_guard(&self) -> EntryGuard {
        self.sq.entry_guard()
    }

    /// The number of requests that have not completed.
    pub(crate) fn len(&self) -> usize {
        self.sq.len()
    }

    /// See [`WorkQueue::inline_len`].
    pub(crate) fn inline_len(&self, bytes: u64) -> Result<usize, PostError> {
        self.sq.inline_len(bytes)
    }

    /// Checks a request without posting it. Returns its length.
    // rule: 10.8.2-refused-nothing
    pub(crate) fn check(
        &self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
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

    /// Appends a request to the send queue. Returns its length.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
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
            is_train: self.sends_as_train(core, &request.op, len, packets),
            receives,
            srq,
        };
        self.sq.push_checked(wqe, source);
        self.assigned = wqe.end();
        self.receives = receives;
        Ok(len)
    }

    /// Handles a response that came from the UDP source port `port`.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        port: u16,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let (at, before) = (self.una.nearest(packet.bth.psn), self.una);
        let distance = (before - at).max(at - self.max);
        self.suspicion.judge(cx, core, port, Gap::Other(distance));
        let is_usual = self.suspicion.is_usual(port);
        if !is_usual {
            cold_path();
            if self.suspicion.refuses(cx, core, port) {
                cx.observe.syndrome_of(packet);
                return Ok(());
            }
        }
        let result = match packet.bth.opcode.operation() {
            Operation::Acknowledge => self.receive_ack(cx, core, at, packet),
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                self.receive_response(cx, core, at, port, packet)
            }
            _ => {
                cx.drop(DropReason::Unsupported);
                Ok(())
            }
        };
        if !is_usual && self.una > before {
            cold_path();
            self.suspicion.note_in_order(core, port);
        }
        result
    }

    /// Whether it may have something to send.
    pub(crate) fn wants_to_send(&self) -> bool {
        let some = self.cursor < self.sq.len() || self.recovery.due().is_some();
        some && !self.retry.is_waiting_for_receiver()
    }

    /// Prefetches what is sent next.
    pub(crate) fn prefetch_for_turn(&self) {
        self.sq.prefetch(self.cursor);
    }

    /// What the port learns about the packet at `at`, which is about to be sent.
    #[inline]
    fn sequenced(&self, at: Seq) -> Option<Sequenced> {
        let is_retransmission = at < self.max;
        at.position().map(|position| Sequenced {
            position,
            is_retransmission,
        })
    }

    /// The position before which the port may release all packets; `None` if it keeps none.
    pub(crate) fn take_acknowledged(&mut self) -> Option<Position> {
        let una = self.una;
        self.kept_packets
            .begin_report(una)
            .then(|| una.position())
            .flatten()
    }

    /// Ends the flow: nothing that was sent is retransmitted any more. Returns whether the port
    /// keeps any packet of it.
    pub(crate) fn end_flow(&mut self) -> bool {
        self.kept_packets.end()
    }

    /// The next deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.retry.deadline(), self.clock.deadline()) {
            (Some(retry), Some(clock)) => Some(retry.min(clock)),
            (retry, clock) => retry.or(clock),
        }
    }

    /// Begins to drain in state SQD; [`Requester::take_drained`] reports the end.
    pub(crate) fn begin_drain(&mut self) {
        self.drain_pending = true;
    }

    /// Whether all requests that were begun have just completed. True once per drain.
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
    ) -> Result<bool, QpFailure> {
        let Some(wqe) = self.sq.pop() else {
            return Ok(false);
        };
        self.cursor = self.cursor.saturating_sub(1);
        if status == WcStatus::Success {
            self.longest_answered = self.longest_answered.max(wqe.request.len);
            self.written.note(&wqe.request.op, wqe.request.len);
        }
        wqe.request.complete(cx, core, status, &self.sq)?;
        Ok(true)
    }

    /// Advances `una` to `to`, and completes every request that ends there or before. The caller
    /// makes sure that no READ or atomic before `to` still lacks its response.
    // rule: 9.7.6.1-partial
    fn advance(&mut self, cx: &mut Cx<'_>, core: &Core, to: Seq) -> Result<(), QpFailure> {
        if to <= self.una {
            return Ok(());
        }
        let before = self.una;
        self.una = to;
        let acked = &mut self.feedback.acked;
        acked.packets += to - before;
        acked.in_flight = acked.in_flight.max(self.max - before);
        if self.kept_packets.on_progress() {
            cx.outcome.report = Some(Report::Acknowledged);
        }
        self.fetches.retire(to);
        self.complete_finished(cx, core)?;
        if self.nxt < to {
            cold_path();
            // rule: 10.8.6-own-memory-back
            // Packets that were about to be retransmitted have been received after all.
            if self.recovery.timed_out && !self.recovery.peer_keeps() {
                cx.nic.counters.count(Stat::SpuriousTimeouts);
                self.send_window.undo_timeout();
            }
            self.nxt = to;
            self.cursor = 0;
        }
        self.send_window.on_ack(to - before);
        self.recovery.on_progress(to);
        self.out_of_order.on_progress(to);
        self.retry.on_progress(cx.now, self.una < self.max);
        let outstanding = self.una < self.max;
        let of_data = outstanding && self.fetches.first_open().is_none();
        self.clock.note_pause(cx.now, of_data);
        self.clock.on_progress(cx.now, to, outstanding);
        self.share_slack(cx);
        Ok(())
    }

    /// Lets new QPs start with what this one has learned.
    #[inline]
    fn share_slack(&mut self, cx: &mut Cx<'_>) {
        if let Some(slack) = self.clock.take_learned_slack() {
            cold_path();
            cx.nic.slack = Some(slack);
        }
    }

    /// Completes the requests at the front that are finished.
    fn complete_finished(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        // rule: 9.5-completed-in-order
        while self.sq.front().is_some_and(|wqe| wqe.is_over(self.una)) {
            // rule: 10.8.6-after-ack
            self.complete_front(cx, core, WcStatus::Success)?;
        }
        Ok(())
    }

    /// Goes back to `to`: everything from there on is retransmitted.
    // rule: 9.7.3-same-again
    fn go_back(&mut self, to: Seq) {
        self.recovery.cancel();
        self.clock.discard_timings();
        if to >= self.nxt {
            return;
        }
        self.nxt = to;
        self.cursor = self.sq.partition_point(|wqe| wqe.end() <= to);
        self.since_ack_req = 0;
    }
}
