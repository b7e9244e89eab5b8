//! Queue pairs.
//!
//! A QP has two halves, which share nothing but the configuration. Those of RC are a
//! [`requester`] (send queue, retransmission, completions of sends) and a
//! [`responder`] (receive queue, placement, acknowledgements); those of [`uc`] and
//! [`ud`] send and receive without acknowledgement. [`service`] tells the services apart. The NIC
//! drives a QP with a context [`Cx`] of what lies outside of it.

mod arrivals;
mod attr;
mod congestion;
pub(crate) mod early;
mod emit;
mod kind;
mod local;
mod queue;
mod receives;
mod requester;
mod responder;
mod sends;
mod service;
mod sgl;
mod uc;
mod ud;
mod window;
mod xrc;

pub use attr::{MAX_RD_ATOMIC, ModifyError, QpAttributes, QpConfig, QpState, largest_path_mtu};
pub use kind::QpKind;
use queue::Source;
pub(crate) use queue::WorkQueue;
pub use queue::{MAX_INLINE_BYTES, MAX_QUEUE_DEPTH, QueueLimits};
pub(crate) use receives::{Receives, RecvWqe};

use crate::congestion::Congestion;
use crate::congestion::limiter::Limiter;
use crate::congestion::notification::Notifier;
use crate::counters::{Counters, DropReason};
use crate::cq::{CompletionQueue, Pushed};
use crate::event::Event;
use crate::memory::{MemoryTable, PdId};
use crate::port::{Port, RxMeta};
use crate::share::Stake;
use crate::srq::{SrqTable, Srqn};
use crate::time::Instant;
use crate::wr::{Completion, PostError, RecvWr, SendFlags, SendWr, WcOpcode, WcStatus};
use early::EarlyPool;
use roce_wire::{Packet, Qpn};
use service::Service;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// What lies outside of a QP while something happens to it.
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) srqs: &'a mut SrqTable,
    pub(crate) memory: &'a mut MemoryTable,
    pub(crate) counters: &'a mut Counters,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) early: &'a mut EarlyPool,
    /// How many bytes more may be in flight to the peer.
    pub(crate) room: u64,
    /// The QP would have sent more than that.
    pub(crate) starved: bool,
    pub(crate) congestion: &'a Congestion,
    /// The QP owes its peer a CNP that it did not owe before.
    pub(crate) owes_notice: bool,
}

impl Cx<'_> {
    /// Delivers a completion.
    fn complete(
        &mut self,
        cq: &CompletionQueue,
        completion: Completion,
        solicited: bool,
    ) -> Result<(), Fault> {
        match cq.push(completion, solicited) {
            Pushed::Quiet => Ok(()),
            Pushed::Notify => {
                self.events.push_back(Event::CqNotify(cq.id()));
                Ok(())
            }
            Pushed::Overrun { first } => {
                if first {
                    // rule: 11.6.3-cq-error
                    self.events.push_back(Event::CqError(cq.id()));
                }
                Err(Fault::CqOverrun)
            }
        }
    }
}

/// Why a QP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The oldest send request fails with this status.
    Send(WcStatus),
    /// The responder failed at a request, after telling the peer and the receive
    /// queue what there was to tell.
    Responder,
    /// The same: the request was invalid.
    InvalidRequest,
    /// The same: the peer was denied access.
    AccessViolation,
    /// A completion found no room.
    CqOverrun,
}

impl Fault {
    /// What the QP's owner hears of it.
    fn event(self, qpn: Qpn) -> Event {
        match self {
            // rule: 10.3.1-err-event
            Self::Send(status) => Event::QpFatal(qpn, QpFatalCause::Send(status)),
            // rule: 11.6.3-qp-fatal
            Self::Responder => Event::QpFatal(qpn, QpFatalCause::Responder),
            Self::CqOverrun => Event::QpFatal(qpn, QpFatalCause::CqOverrun),
            // rule: 11.6.3-invalid-request
            Self::InvalidRequest => Event::QpRequestError(qpn),
            // rule: 11.6.3-access-violation
            Self::AccessViolation => Event::QpAccessError(qpn),
        }
    }
}

/// How far a turn to send got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing more to send until something happens.
    Idle,
    /// There is more; others may have their turn first.
    More,
    /// There is more, but the port is full.
    PortFull,
}

/// What a QP is made with.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Its transport service.
    pub kind: QpKind,
    /// Its protection domain.
    pub pd: PdId,
    /// Where sends complete.
    pub send_cq: Arc<CompletionQueue>,
    /// Where receives complete.
    pub recv_cq: Arc<CompletionQueue>,
    /// The size of the send queue.
    pub send: QueueLimits,
    /// The size of the receive queue.
    pub recv: QueueLimits,
    /// The most inline data of a send request, in bytes; lowered to
    /// [`MAX_INLINE_BYTES`].
    pub max_inline: usize,
    /// Whether every send asks for a completion.
    pub signal_all: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    core: Core,
    service: Service,
    /// The peer's first packet has come.
    established: bool,
    /// Its part in what may be in flight to its peer.
    pub(crate) stake: Stake,
    notifier: Notifier,
    /// Its rate, while congestion limits it.
    limiter: Option<Box<Limiter>>,
}

/// What the two halves share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) qpn: Qpn,
    pub(crate) kind: QpKind,
    pub(crate) pd: PdId,
    pub(crate) state: QpState,
    pub(crate) config: QpConfig,
    pub(crate) send_cq: Arc<CompletionQueue>,
    pub(crate) recv_cq: Arc<CompletionQueue>,
    pub(crate) signal_all: bool,
    /// The SRQ of the peer that the request being posted is for. (XRC only.)
    pub(crate) peer_srq: Option<Srqn>,
}

impl Qp {
    pub(crate) fn new(qpn: Qpn, init: QpInit, receives: Receives) -> Self {
        Self {
            service: Service::new(&init, receives),
            core: Core {
                qpn,
                kind: init.kind,
                pd: init.pd,
                // rule: 10.3.1-created-reset
                state: QpState::Reset,
                config: QpConfig::default(),
                send_cq: init.send_cq,
                recv_cq: init.recv_cq,
                signal_all: init.signal_all,
                peer_srq: None,
            },
            established: false,
            stake: Stake::default(),
            notifier: Notifier::default(),
            limiter: None,
        }
    }

    pub(crate) fn state(&self) -> QpState {
        self.core.state
    }

    pub(crate) fn kind(&self) -> QpKind {
        self.core.kind
    }

    /// The attributes, with the PSNs that have been reached.
    pub(crate) fn config(&self) -> QpConfig {
        let mut config = self.core.config.clone();
        self.service.tell_psns(self.core.state, &mut config);
        config
    }

    /// The SRQ that it takes receives from.
    pub(crate) fn srq(&self) -> Option<Srqn> {
        self.service.srq()
    }

    /// Changes attributes and state (IBTA 1.7, 11.2.5.2).
    pub(crate) fn modify(
        &mut self,
        cx: &mut Cx<'_>,
        attributes: &QpAttributes,
        limits: PortLimits,
    ) -> Result<(), ModifyError> {
        let from = self.core.state;
        // rule: 11.2.5.2-refused-unchanged
        attributes.check(self.core.kind, from, limits.max_packet_bytes)?;
        let to = attributes.state.unwrap_or(from);
        self.core.config.apply(attributes);
        if !self.core.kind.is_connected() {
            // Not an attribute: a datagram may be as long as the port carries.
            self.core.config.path_mtu = largest_path_mtu(limits.max_packet_bytes);
        }
        if to == QpState::Err {
            self.fail(cx, None);
        }
        self.core.state = to;
        match (from, to) {
            (_, QpState::Reset) => self.reset(cx),
            (QpState::Init, QpState::Rtr) => {
                self.established = false;
                self.service.start_receiving(&self.core.config);
            }
            (QpState::Rtr, QpState::Rts) => {
                let window = limits.window_bytes;
                self.service.start_sending(&self.core.config, window);
            }
            (QpState::Sqd, QpState::Sqd) => self.service.reconfigure(&self.core.config),
            (QpState::Rts, QpState::Sqd) => {
                self.service.begin_drain();
                self.note_drained(cx);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a request to the send queue, whose bytes come from its elements.
    pub(crate) fn post_send(&mut self, cx: &mut Cx<'_>, wr: &SendWr<'_>) -> Result<(), PostError> {
        if !wr.flags.contains(SendFlags::INLINE) {
            return self.post_from(cx, wr, Source::Memory(wr.sges));
        }
        let bytes = sgl::total_len(wr.sges);
        let mut room = [0; MAX_INLINE_BYTES];
        let data = usize::try_from(bytes)
            .ok()
            .and_then(|len| room.get_mut(..len))
            .ok_or(PostError::InlineTooLong {
                bytes,
                max: MAX_INLINE_BYTES,
            })?;
        sgl::gather(cx.memory, self.core.pd, wr.sges, 0, data).map_err(PostError::InlineMemory)?;
        self.post_inline(cx, wr, data)
    }

    /// Adds a request to the send queue, whose bytes are these.
    pub(crate) fn post_inline(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        data: &[u8],
    ) -> Result<(), PostError> {
        if !wr.op.sends_bytes() {
            return Err(PostError::NotInline(wr.op.completion_opcode()));
        }
        self.post_from(cx, wr, Source::Inline(data))
    }

    fn post_from(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        source: Source<'_>,
    ) -> Result<(), PostError> {
        let kind = self.core.kind;
        if !kind.can_do(&wr.op) {
            return Err(PostError::WrongService { kind });
        }
        if kind == QpKind::XrcInitiator && self.core.peer_srq.is_none() && !wr.op.is_local() {
            return Err(PostError::NoSrqNamed);
        }
        match self.core.state {
            // rule: 10.3.1-sqd-posting
            QpState::Rts | QpState::Sqd => self.service.post_send(&self.core, wr, source),
            QpState::Err | QpState::Sqe => {
                self.service.check_send(&self.core, wr, source)?;
                let flushed = self.flush_one(cx, wr.wr_id, wr.op.completion_opcode());
                // In the error state the CQ's own event tells of an overrun.
                if let (QpState::Sqe, Err(overrun)) = (self.core.state, flushed) {
                    self.fail(cx, Some(overrun));
                }
                Ok(())
            }
            // rule: 10.3.1-init-receives
            state => Err(PostError::InvalidState(state)),
        }
    }

    /// Adds a request to the receive queue.
    pub(crate) fn post_recv(&mut self, cx: &mut Cx<'_>, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let kind = self.core.kind;
        // rule: A14-no-recv-queue
        if kind.is_xrc() {
            return Err(PostError::NoReceiveQueue { kind });
        }
        match self.core.state {
            // rule: 10.3.1-reset-no-posting
            QpState::Reset => Err(PostError::InvalidState(QpState::Reset)),
            QpState::Err => {
                self.service.check_recv(wr)?;
                // The CQ's own event tells of an overrun.
                let _ = self.flush_one(cx, wr.wr_id, WcOpcode::Recv);
                Ok(())
            }
            _ => self.service.post_recv(wr),
        }
    }

    /// Takes a packet whose ICRC has been verified.
    pub(crate) fn receive(&mut self, cx: &mut Cx<'_>, meta: &RxMeta, packet: &Packet<'_>) {
        if let Err(reason) = self.admit(meta, packet) {
            cx.counters.drop(reason);
            return;
        }
        if meta.is_marked() {
            self.note_mark(cx);
        }
        if self.core.state == QpState::Rtr && !self.established && self.core.kind.is_connected() {
            self.established = true;
            // rule: 11.6.3-comm-est
            cx.events.push_back(Event::CommEstablished(self.core.qpn));
        }
        let result = self.service.receive(cx, &self.core, meta, packet);
        self.note_drained(cx);
        if let Err(fault) = result {
            self.fail(cx, Some(fault));
        }
    }

    // rule: 9.2.3-migreq-taken
    /// Whether the packet comes from the peer, and the state takes it.
    // rule: 9.8.2-source
    fn admit(&self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        let opcode = packet.bth.opcode;
        if opcode.transport() != self.core.kind.transport() {
            // rule: 9.6.1-service
            return Err(DropReason::WrongTransport);
        }
        if !self.core.kind.takes(opcode) {
            return Err(DropReason::WrongDirection);
        }
        self.admit_peer(meta, packet)?;
        // rule: 9.6.1-state
        let takes = match self.core.state {
            // rule: 10.3.1-sqd-receives
            QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            // rule: 10.3.1-rtr-receives
            QpState::Rtr => opcode.is_request(),
            // rule: 10.3.1-err-silent
            QpState::Reset | QpState::Init | QpState::Err => false,
        };
        if takes {
            Ok(())
        } else {
            Err(DropReason::WrongState)
        }
    }

    /// Whether the packet comes from the peer, and is for the same partition.
    fn admit_peer(&self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        if self.core.kind.is_connected() {
            let Some(path) = &self.core.config.path else {
                return Err(DropReason::WrongState);
            };
            // rule: 9.6.1-destination
            // ReDMArk (USENIX Security 2021): a QP speaks to its peer only.
            // rule: 9.6.1-source
            if path.dst != meta.src || path.src != meta.dst {
                return Err(DropReason::WrongPeer);
            }
            // rule: A16-versions-apart
            if path.version != meta.version() {
                return Err(DropReason::WrongVersion);
            }
        }
        // rule: 9.6.1-pkey
        if !self.core.config.pkey.matches(packet.bth.pkey) {
            return Err(DropReason::WrongPKey);
        }
        Ok(())
    }

    // rule: 9.9.3-nak-leaves
    /// Sends at most about `budget` packets: the requester's first, so that what the
    /// application waits for is not behind acknowledgements.
    pub(crate) fn transmit(&mut self, cx: &mut Cx<'_>, port: &mut dyn Port, budget: usize) -> Turn {
        if self.answers_go_first() {
            return match self.answer(cx, port, budget) {
                Turn::Idle => self.transmit_requests(cx, port, budget),
                other => other,
            };
        }
        let turn = self.transmit_requests(cx, port, budget);
        if turn == Turn::PortFull {
            return turn;
        }
        match self.answer(cx, port, budget) {
            Turn::Idle => turn,
            other => other,
        }
    }

    /// The responder's part of that alone.
    fn answer(&mut self, cx: &mut Cx<'_>, port: &mut dyn Port, budget: usize) -> Turn {
        self.transmit_replies(cx, port, budget)
            .unwrap_or_else(|fault| {
                self.fail(cx, Some(fault));
                Turn::More
            })
    }

    /// Its turn to send comes soon.
    pub(crate) fn foresee_turn(&self) {
        self.service.foresee_turn();
    }

    /// The requester's part of that alone.
    pub(crate) fn transmit_requests(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Port,
        budget: usize,
    ) -> Turn {
        if !matches!(self.core.state, QpState::Rts | QpState::Sqd) {
            return Turn::Idle;
        }
        let turn = self
            .transmit_work(cx, port, budget)
            .unwrap_or_else(|fault| {
                self.fail(cx, Some(fault));
                Turn::Idle
            });
        self.note_drained(cx);
        turn
    }

    /// Whether it may have something to send.
    pub(crate) fn wants_to_send(&self) -> bool {
        let pauses = self.pause().is_some();
        (self.service.has_replies() && !(pauses && self.service.owes_data()))
            || (matches!(self.core.state, QpState::Rts | QpState::Sqd)
                && !pauses
                && self.service.has_requests(&self.core))
    }

    /// When [`Qp::handle_timeout`] should be called next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        // Who may not send can't do anything about what is late.
        self.pause().or_else(|| self.service.deadline())
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.pause().is_some() {
            if self.still_pauses(cx) {
                return;
            }
            self.service.excuse(cx.now);
        }
        if matches!(self.core.state, QpState::Rts | QpState::Sqd)
            && let Err(fault) = self.service.handle_timeout(cx, &self.core)
        {
            self.fail(cx, Some(fault));
        }
    }

    /// How many requests have not completed: sends, receives.
    pub(crate) fn queued(&self) -> (usize, usize) {
        self.service.queued()
    }

    /// The address of its peer, if it has one.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        Some(self.core.config.path?.dst)
    }

    /// Bytes that the peer has not acknowledged yet, in whole packets.
    pub(crate) fn in_flight(&self) -> u64 {
        self.service.packets_in_flight() * self.core.config.mtu() as u64
    }

    /// Gives back what it holds of the NIC's.
    pub(crate) fn release(&mut self, cx: &mut Cx<'_>) {
        self.service.release(cx);
    }

    // rule: 10.3.1-reset-clears
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.release(cx);
        self.service.reset();
        self.notifier = Notifier::default();
        self.limiter = None;
        // rule: 10.3.1-reset-attributes
        self.core.config = QpConfig::default();
    }

    /// Tells when the send queue in state SQD has drained.
    fn note_drained(&mut self, cx: &mut Cx<'_>) {
        if self.core.state == QpState::Sqd && self.service.take_drained() {
            // rule: 11.6.3-sq-drained
            cx.events.push_back(Event::SqDrained(self.core.qpn));
        }
    }

    // rule: 9.9.2-error-state
    /// Moves the QP to the error state: the request at fault completes with its
    /// status, everything behind it as flushed, in order (IBTA 1.7, 10.3.1.5). An
    /// error in the send queue of an unreliable service leaves receiving as it is
    /// (IBTA 1.7, 10.3.1.6).
    fn fail(&mut self, cx: &mut Cx<'_>, fault: Option<Fault>) {
        let status = match fault {
            Some(Fault::Send(status)) => status,
            _ => WcStatus::WorkRequestFlushed,
        };
        if matches!(fault, Some(Fault::Send(_))) && self.core.kind.survives_send_errors() {
            // rule: 9.8.2-sqe, 9.8.3-sqe
            self.core.state = QpState::Sqe;
            return match self.flush_sends(cx, status) {
                Ok(()) => {}
                // No QP survives that.
                Err(overrun) => self.fail(cx, Some(overrun)),
            };
        }
        let from = core::mem::replace(&mut self.core.state, QpState::Err);
        self.release(cx);
        // A full CQ takes no more completions; it is known to have overrun by then.
        let _ = self.flush_sends(cx, status);
        // rule: 10.3.1-err-flushes
        while self
            .service
            .flush_receive(cx, &self.core)
            .is_ok_and(|any| any)
        {}
        self.service.abandon();
        cx.events
            .extend(fault.map(|fault| fault.event(self.core.qpn)));
        if from != QpState::Err && self.srq().is_some() {
            // rule: 10.2.9-srq-last-wqe
            cx.events.push_back(Event::LastWqeReached(self.core.qpn));
        }
    }

    /// Completes the oldest send with `status` and those behind it as flushed, as many as
    /// the CQ takes.
    fn flush_sends(&mut self, cx: &mut Cx<'_>, mut status: WcStatus) -> Result<(), Fault> {
        let flushed = loop {
            match self.service.complete_send(cx, &self.core, status) {
                // rule: 10.3.1-err-once
                Ok(true) => status = WcStatus::WorkRequestFlushed,
                Ok(false) => break Ok(()),
                Err(overrun) => break Err(overrun),
            }
        };
        self.service.stop_sending();
        flushed
    }

    // rule: 10.3.1-err-posting
    fn flush_one(&mut self, cx: &mut Cx<'_>, wr_id: u64, opcode: WcOpcode) -> Result<(), Fault> {
        let completion = Completion {
            wr_id,
            status: WcStatus::WorkRequestFlushed,
            opcode,
            byte_len: 0,
            qpn: self.core.qpn,
            imm: None,
            invalidated_rkey: None,
            source: None,
        };
        let cq = match opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => &self.core.recv_cq,
            _ => &self.core.send_cq,
        };
        cx.complete(cq, completion, false)
    }
}

/// Why a QP failed, for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpFatalCause {
    /// A send request failed with this status.
    Send(WcStatus),
    /// A request of the peer failed for a reason that lies here: the memory of the
    /// receive that it took.
    Responder,
    /// A completion queue overran.
    CqOverrun,
}

/// What the port allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortLimits {
    pub(crate) max_packet_bytes: usize,
    pub(crate) window_bytes: usize,
}
