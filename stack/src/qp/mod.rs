//! Queue pairs.
//!
//! A QP has two halves, which share only the configuration. The halves of RC are a [`requester`]
//! (send queue, retransmission, completions of sends) and a [`responder`] (receive queue,
//! placement, acknowledgements); those of [`uc`] and [`ud`] send and receive without
//! acknowledgement. [`service`] dispatches to the halves by transport service. For each call, the
//! NIC passes the QP a context [`Cx`] with everything outside of it.

mod admit;
mod arrivals;
mod attr;
mod completing;
mod congestion;
mod context;
pub(crate) mod emit;
mod failure;
mod inbound;
mod local;
mod mismatched;
mod post;
mod posted;
mod receives;
pub(crate) mod reorder;
mod requester;
mod responder;
mod send_window;
mod sender;
mod service;
mod sgl;
mod suspicion;
mod uc;
mod ud;

pub use attr::{MAX_RD_ATOMIC, ModifyError, QpAttributes, QpConfig, largest_path_mtu};
pub(crate) use context::{Cx, Outcome, Report, Shared, Slack, Turn};
pub(crate) use failure::QpFailure;
pub(crate) use receives::Receives;
use requester::Requester;
use responder::Responder;

use crate::completion_counter::{
    AttachCounterError, AttachedCounters, CompletionCounter, CountedOps,
};
use crate::congestion::limiter::Limiter;
use crate::congestion::notification::Notifier;
use crate::cq::CompletionQueue;
use crate::encapsulation::RxMeta;
use crate::event::Event;
use crate::ids::{Srqn, XrcdId};
use crate::kind::{QpKind, QpState};
use crate::memory::{NotDurable, PdId, prefetch};
use crate::peer_window::WindowShare;
use crate::queue::QueueLimits;
use crate::time::Instant;
use crate::traffic::QpTraffic;
use crate::transmit::{Flow, Position, Transmit};
use congestion::CongestionCounts;
use core::cell::Cell;
use core::hint::cold_path;
use roce_wire::{Packet, Qpn};
use service::Service;
use std::net::IpAddr;
use std::sync::Arc;

/// The parameters of a new QP.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Its transport service.
    pub kind: QpKind,
    /// Its protection domain.
    pub pd: PdId,
    /// The CQ of sends.
    pub send_cq: Arc<CompletionQueue>,
    /// The CQ of receives.
    pub recv_cq: Arc<CompletionQueue>,
    /// The size of the send queue.
    pub send: QueueLimits,
    /// The size of the receive queue.
    pub recv: QueueLimits,
    /// The maximum inline data of a send request, in bytes. A value above
    /// [`MAX_INLINE_BYTES`](crate::MAX_INLINE_BYTES) is lowered to it.
    pub max_inline: usize,
    /// Whether every send request is signaled, whatever its flags.
    pub signal_all: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    core: Core,
    service: Service,
    /// The peer's first packet has arrived.
    established: bool,
    /// Its share of the peer window.
    pub(crate) window_share: WindowShare,
    notifier: Notifier,
    /// Its rate and window, while congestion control or the application limits it.
    limiter: Option<Box<Limiter>>,
    /// Congestion control is running: the QP has sent data, or received a CNP.
    congestion_started: bool,
    congestion_counts: CongestionCounts,
    /// Its traffic, which the NIC counts.
    pub(crate) traffic: QpTraffic,
}

/// The state that the two halves share.
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
    pub(crate) counters: AttachedCounters,
    /// The UDP source port of the peer's last packet in order, to either half, that came from
    /// another port than the one before; `None` if there was none.
    pub(crate) peer_port: Cell<Option<u16>>,
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
                counters: AttachedCounters::default(),
                peer_port: Cell::new(None),
            },
            established: false,
            window_share: WindowShare::default(),
            notifier: Notifier::default(),
            limiter: None,
            congestion_started: false,
            congestion_counts: CongestionCounts::default(),
            traffic: QpTraffic::default(),
        }
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.core.qpn
    }

    pub(crate) fn state(&self) -> QpState {
        self.core.state
    }

    pub(crate) fn kind(&self) -> QpKind {
        self.core.kind
    }

    /// The attributes, with the present PSNs.
    pub(crate) fn config(&self) -> QpConfig {
        let mut config = self.core.config.clone();
        self.service.fill_psns(self.core.state, &mut config);
        config
    }

    /// The SRQ that it takes receives from.
    pub(crate) fn srq(&self) -> Option<Srqn> {
        self.service.receives().srq()
    }

    /// The XRC domain whose SRQs requests may name; `None` if the QP is not an XRC target.
    pub(crate) fn domain(&self) -> Option<XrcdId> {
        self.service.receives().domain()
    }

    /// Lets `counter` count these operations, until the QP is destroyed.
    pub(crate) fn attach_counter(
        &mut self,
        counter: &Arc<CompletionCounter>,
        ops: CountedOps,
    ) -> Result<(), AttachCounterError> {
        match self.core.state {
            QpState::Reset | QpState::Init => self.core.counters.attach(counter, ops),
            state => Err(AttachCounterError::WrongState { state }),
        }
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
        let checked = attributes.check(self.core.kind, from, limits.max_packet_bytes);
        let checked = checked.and_then(|()| match attributes.rate_limit {
            Some(limit) => limit.check(self.core.config.path_mtu),
            None => Ok(()),
        });
        if let Err(refused) = checked {
            let to = attributes.state.unwrap_or(from);
            cx.observe.modify_refused(from, to);
            return Err(refused);
        }
        let to = attributes.state.unwrap_or(from);
        self.core.config.apply(attributes);
        if !self.core.kind.is_connected() {
            // UD has no path MTU attribute: a datagram may be as long as the port carries.
            self.core.config.path_mtu = largest_path_mtu(limits.max_packet_bytes);
        }
        if to == QpState::Err {
            self.fail(cx, None);
        }
        self.enter(cx, to);
        match (from, to) {
            (_, QpState::Reset) => self.reset(cx),
            (QpState::Init, QpState::Rtr) => {
                self.established = false;
                self.core.peer_port.set(None);
                self.service.start_receiving(&self.core.config);
            }
            (QpState::Rtr, QpState::Rts) => {
                let window = limits.window_bytes;
                self.service.start_sending(cx, &self.core.config, window);
            }
            (QpState::Sqd, QpState::Sqd) => {
                if let Service::Rc {
                    requester,
                    responder,
                } = &mut self.service
                {
                    requester.reconfigure(&self.core.config);
                    responder.reconfigure(&self.core.config);
                }
            }
            (QpState::Rts, QpState::Sqd) => {
                self.service.begin_drain();
                self.note_drained(cx);
            }
            _ => {}
        }
        if attributes.rate_limit.is_some() || attributes.static_rate.is_some() {
            self.limit_rate(cx);
        }
        Ok(())
    }

    /// Changes only the state.
    pub(super) fn enter(&mut self, cx: &mut Cx<'_>, to: QpState) {
        let from = core::mem::replace(&mut self.core.state, to);
        if from != to {
            cx.observe.state(from, to);
        }
    }

    /// Handles a packet whose ICRC has been verified.
    // rule: CA17-25-transport
    pub(crate) fn receive(&mut self, cx: &mut Cx<'_>, meta: &RxMeta, packet: &Packet<'_>) {
        if let Err(reason) = self.admit(meta, packet) {
            cold_path();
            self.drop_unadmitted(cx, packet, reason);
            if let Some(found) = mismatched::not_admitted(&self.core, meta, packet, reason) {
                cx.observe.mismatch(found);
            }
            return;
        }
        if meta.is_marked() {
            cold_path();
            self.note_mark(cx, packet);
        }
        if self.core.state == QpState::Rtr {
            cold_path();
            if !self.established && self.core.kind.is_connected() {
                self.established = true;
                // rule: 11.6.3-comm-est
                cx.nic
                    .events
                    .push_back(Event::CommEstablished(self.core.qpn));
            }
        }
        cx.observe.received(packet);
        let result = self.service.receive(cx, &self.core, meta, packet);
        if self.limiter.is_some() {
            cold_path();
            self.apply_feedback(cx);
        }
        self.note_drained(cx);
        if let Err(failure) = result {
            cold_path();
            self.fail(cx, Some(failure));
        }
    }

    /// Continues with a FLUSH whose memory is durable, or could not be made so.
    pub(crate) fn finish_persist(
        &mut self,
        cx: &mut Cx<'_>,
        number: u64,
        result: Result<(), NotDurable>,
    ) {
        if let Some(responder) = self.service.responder_mut()
            && let Err(failure) = responder.finish_persist(cx, &self.core, number, result)
        {
            self.fail(cx, Some(failure));
        }
    }

    // rule: 9.9.3-nak-leaves
    /// Sends up to about `budget` packets. Requests go first, so that the application's data does
    /// not wait behind acknowledgements. At a limited rate, requests and replies with data take
    /// turns.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        budget: usize,
    ) -> Turn {
        self.end_pause(cx);
        cx.nothing_follows &= !self.has_replies();
        if self.replies_go_first() {
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

    /// Sends replies to the peer, without requests.
    fn answer(&mut self, cx: &mut Cx<'_>, port: &mut dyn Transmit, budget: usize) -> Turn {
        self.transmit_replies(cx, port, budget)
            .unwrap_or_else(|failure| {
                cold_path();
                self.fail(cx, Some(failure));
                Turn::More
            })
    }

    /// Prefetches what the QP needs for its next turn to send.
    pub(crate) fn prefetch_for_turn(&self) {
        if let Some(limiter) = &self.limiter {
            prefetch(&**limiter);
        }
        self.service.prefetch_for_turn();
    }

    /// Sends posted requests, without replies to the peer.
    pub(crate) fn transmit_requests(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        budget: usize,
    ) -> Turn {
        self.end_pause(cx);
        if !self.queues_sends() {
            cold_path();
            return Turn::Idle;
        }
        let turn = self
            .transmit_work(cx, port, budget)
            .unwrap_or_else(|failure| {
                cold_path();
                self.fail(cx, Some(failure));
                Turn::Idle
            });
        self.note_drained(cx);
        turn
    }

    /// Whether it may have something to send.
    pub(crate) fn wants_to_send(&self) -> bool {
        let pauses = self.pause().is_some();
        (self.has_replies() && !(pauses && self.has_data_to_send()))
            || (self.queues_sends() && !pauses && self.service.has_requests(&self.core))
    }

    /// Whether a reply to the peer waits to be sent.
    fn has_replies(&self) -> bool {
        let responder = self.service.responder();
        responder.is_some_and(Responder::wants_to_send)
    }

    /// Whether the next reply to the peer carries data.
    fn has_data_to_send(&self) -> bool {
        let responder = self.service.responder();
        responder.is_some_and(Responder::has_data_to_send)
    }

    /// Whether the only reply that waits is an acknowledgement.
    fn has_only_ack_to_send(&self) -> bool {
        let responder = self.service.responder();
        responder.is_some_and(Responder::has_only_ack_to_send)
    }

    /// Whether it has a NAK to send.
    pub(crate) fn has_nak_to_send(&self) -> bool {
        let responder = self.service.responder();
        responder.is_some_and(Responder::has_nak_to_send)
    }

    /// Whether it has an acknowledgement to send, and nothing else.
    pub(crate) fn wants_only_to_acknowledge(&self) -> bool {
        self.has_only_ack_to_send() && !self.service.has_requests(&self.core)
    }

    /// The next time to call [`Qp::handle_timeout`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        // During a pause the QP can't retransmit, so the retransmission timers wait for its end.
        self.pause()
            .or_else(|| self.service.requester()?.deadline())
    }

    /// Handles all timers that are due.
    pub(crate) fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.pause().is_some() {
            return;
        }
        if self.queues_sends()
            && let Some(requester) = self.service.requester_mut()
            && let Err(failure) = requester.handle_timeout(cx, &self.core)
        {
            self.fail(cx, Some(failure));
        }
        if self.limiter.is_some() {
            self.apply_feedback(cx);
        }
    }

    /// The number of requests that have not completed: (sends, receives).
    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.service.sends(), self.service.receives().len())
    }

    /// The address of its peer, if it has one.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        Some(self.core.config.path?.dst)
    }

    /// Bytes that the peer has not acknowledged yet. Each packet counts as a full path MTU. 0 for a
    /// service without acknowledgements.
    pub(crate) fn in_flight(&self) -> u64 {
        let packets = self.service.requester().map_or(0, Requester::in_flight);
        packets * self.core.config.mtu() as u64
    }

    /// Whether the peer has not acknowledged everything that was sent. True for a service without
    /// acknowledgements.
    pub(crate) fn has_in_flight(&self) -> bool {
        let requester = self.service.requester();
        requester.is_none_or(|requester| requester.in_flight() > 0)
    }

    /// The length of the longest request that the peer has answered; 0 if there is none.
    pub(crate) fn longest_answered(&self) -> u32 {
        let requester = self.service.requester();
        requester.map_or(0, Requester::longest_answered)
    }

    /// The flow, and the position before which the port may release all packets; `None` if the port
    /// keeps none.
    pub(crate) fn take_acknowledged(&mut self) -> Option<(Flow, Position)> {
        let before = self.service.requester_mut()?.take_acknowledged()?;
        Some((self.flow(), before))
    }

    fn flow(&self) -> Flow {
        Flow {
            from_qp: self.core.qpn,
            to_qp: self.core.config.dest_qpn,
        }
    }

    /// Drops the out-of-order packets that it keeps in the NIC's pool, and reports the end of its
    /// flow to the port.
    pub(crate) fn release(&mut self, cx: &mut Cx<'_>) {
        let Service::Rc {
            requester,
            responder,
        } = &mut self.service
        else {
            return;
        };
        requester.release_out_of_order(cx);
        responder.release_out_of_order(cx);
        if requester.end_flow() {
            cold_path();
            cx.outcome.report = Some(Report::Ended(self.flow()));
        }
    }

    /// Drops the completions that wait in its CQs, when the QP is reset or destroyed: afterwards,
    /// applications free the objects that its `wr_id`s refer to. The completions of an XRC target's
    /// receives are in the CQs of SRQs, and stay there.
    // rule: 10.3.1-reset-completions
    pub(crate) fn forget(&mut self, cx: &mut Cx<'_>) {
        self.release(cx);
        for cq in [&self.core.send_cq, &self.core.recv_cq] {
            cq.forget(self.core.qpn);
        }
        cx.observe.forget_completions(self.core.qpn);
    }

    // rule: 10.3.1-reset-clears
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.forget(cx);
        self.service.reset();
        self.notifier = Notifier::default();
        self.limiter = None;
        self.forget_congestion();
        self.congestion_counts = CongestionCounts::default();
        // rule: 10.3.1-reset-attributes
        self.core.config = QpConfig::default();
    }

    /// Raises an event when the send queue in state SQD has drained.
    fn note_drained(&mut self, cx: &mut Cx<'_>) {
        if self.core.state == QpState::Sqd {
            cold_path();
            if self.service.take_drained() {
                // rule: 11.6.3-sq-drained
                cx.nic.events.push_back(Event::SqDrained(self.core.qpn));
            }
        }
    }
}

/// The limits of the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortLimits {
    pub(crate) max_packet_bytes: usize,
    pub(crate) window_bytes: usize,
}
