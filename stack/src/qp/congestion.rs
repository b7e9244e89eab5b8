//! Congestion control of a QP (RoCEv2 Annex A17.9.3).

use super::emit::{EmitError, emit};
use super::requester::Requester;
use super::{Cx, Qp, QpFailure, Turn};
use crate::congestion::limiter::{Limiter, lower};
use crate::congestion::{CongestionControl, QpCongestion};
use crate::counters::{DropReason, Stat};
use crate::encapsulation::{RxMeta, TxMeta};
use crate::kind::QpState;
use crate::time::Instant;
use crate::transmit::Transmit;
use core::hint::cold_path;
use roce_wire::{Bth, ExtHeaders, Opcode, Packet, PacketRepr, Psn};

/// The bytes that a packet occupies on a link besides its payload: from the Ethernet header to the
/// frame check sequence.
const OVERHEAD: usize = 62;

/// The congestion counters of a QP.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CongestionCounts {
    marked: u64,
    sent: u64,
    suppressed: u64,
    received: u64,
}

impl Qp {
    /// Handles a CNP whose ICRC has been verified.
    // rule: A17.9.3-cnp-taken
    pub(crate) fn receive_cnp(&mut self, cx: &mut Cx<'_>, meta: &RxMeta, packet: &Packet<'_>) {
        cx.observe.received(packet);
        match self.admit_cnp(meta, packet) {
            Ok(()) => {
                cx.nic.counters.count(Stat::CnpsReceived);
                self.congestion_counts.received += 1;
                self.slow_down(cx);
            }
            Err(reason) => cx.drop(reason),
        }
    }

    // rule: CA17-45-rate
    fn slow_down(&mut self, cx: &mut Cx<'_>) {
        // Without a peer, there is no path to slow down for.
        if !self.core.kind.is_connected() {
            return;
        }
        let control = &cx.nic.congestion.control;
        match &mut self.limiter {
            Some(limiter) => limiter.on_cnp(cx.now, control),
            None => self.limiter = Limiter::after_cnp(cx.now, control).map(Box::new),
        }
        if let Some(limiter) = self.limiter.as_ref().filter(|limiter| limiter.has_law()) {
            self.congestion_started = true;
            cx.outcome.slowed_to = limiter.law_rate(control);
            if let Some(rate) = cx.outcome.slowed_to {
                cx.observe.congestion(rate);
            }
        }
    }

    /// Starts congestion control, when the QP sends data for the first time.
    #[cold]
    fn start_congestion_control(&mut self, cx: &mut Cx<'_>) {
        self.congestion_started = true;
        if !self.core.kind.is_connected() {
            return;
        }
        // Discard the feedback on earlier packets, which has no influence on the initial rate.
        let feedback = self.service.requester_mut().map(Requester::take_feedback);
        let acknowledged = feedback.is_some();
        let control = &cx.nic.congestion.control;
        let starting = Limiter::at_start(
            cx.now,
            control,
            self.core.config.mtu() + OVERHEAD,
            acknowledged,
            cx.nic
                .peer_windows
                .neighbour_rate(cx.now, &self.window_share),
        );
        let Some(starting) = starting else {
            return;
        };
        self.service
            .set_congestion_window(starting.congestion_window());
        match &mut self.limiter {
            Some(limiter) => limiter.adopt_law(cx.now, starting, control),
            None => self.limiter = Some(Box::new(starting)),
        }
    }

    /// Applies the rate limit of the application and the path, or removes it.
    pub(super) fn limit_rate(&mut self, cx: &mut Cx<'_>) {
        let limit = self.core.config.limit();
        let longest = self.core.config.mtu() + OVERHEAD;
        let control = &cx.nic.congestion.control;
        let Some(limiter) = &mut self.limiter else {
            self.limiter = Limiter::limited(cx.now, limit, longest).map(Box::new);
            return;
        };
        limiter.set_limit(cx.now, limit, longest, control);
        let is_free = !limiter.has_law() && limit.rate().is_none();
        self.end_pause(cx);
        if is_free {
            self.limiter = None;
        }
    }

    /// Reports to congestion control which packets were acknowledged or lost.
    #[cold]
    pub(super) fn apply_feedback(&mut self, cx: &mut Cx<'_>) {
        let (Some(limiter), Some(requester)) = (&mut self.limiter, self.service.requester_mut())
        else {
            return;
        };
        let feedback = requester.take_feedback();
        let control = &cx.nic.congestion.control;
        if feedback.acked.packets > 0 {
            limiter.on_acked(cx.now, &feedback.acked, control);
        }
        if feedback.lost || feedback.timed_out {
            limiter.on_loss(cx.now, feedback.timed_out, control);
        }
        requester.set_congestion_window(limiter.congestion_window());
    }

    /// Resets congestion control, as if the QP had sent nothing yet.
    pub(crate) fn forget_congestion(&mut self) {
        if self
            .limiter
            .as_mut()
            .is_some_and(|limiter| limiter.drop_law())
        {
            self.limiter = None;
        }
        self.congestion_started = false;
        self.service.set_congestion_window(None);
    }

    /// The congestion state as of `now`.
    pub(crate) fn congestion(&self, now: Instant, control: &CongestionControl) -> QpCongestion {
        let requester = self.service.requester();
        let (smoothed_rtt, min_rtt) = requester.map_or((None, None), Requester::round_trips);
        let mut status = QpCongestion {
            smoothed_rtt,
            min_rtt,
            ecn_marked: self.congestion_counts.marked,
            cnps_sent: self.congestion_counts.sent,
            cnps_suppressed: self.congestion_counts.suppressed,
            cnps_received: self.congestion_counts.received,
            ..QpCongestion::default()
        };
        let law = self
            .limiter
            .as_ref()
            .and_then(|limiter| limiter.law_at(now, control));
        if let Some(law) = law {
            status.fill_from(&law, control, self.core.config.mtu());
        }
        status.rate = lower(status.rate, self.core.config.limit().rate());
        status
    }

    /// The end of the pause in which the QP may not send data, if it pauses.
    pub(crate) fn pause(&self) -> Option<Instant> {
        let limiter = self.limiter.as_ref()?;
        cold_path();
        limiter.paused_until()
    }

    /// Ends the pause if its time has passed.
    #[inline]
    pub(super) fn end_pause(&mut self, cx: &mut Cx<'_>) {
        let Some(limiter) = &mut self.limiter else {
            return;
        };
        cold_path();
        if limiter.paused_until().is_some() {
            limiter.wake(cx.now, &cx.nic.congestion.control);
            if limiter.paused_until().is_none()
                && let Some(requester) = self.service.requester_mut()
                && let Err(failure) = requester.after_pause(cx)
            {
                self.fail(cx, Some(failure));
            }
        }
    }

    /// Whether the next burst consists of replies with data. At a limited rate, requests and
    /// replies take turns, burst by burst. If requests always went first, they could use up the
    /// whole rate.
    pub(super) fn replies_go_first(&self) -> bool {
        let Some(limiter) = &self.limiter else {
            return false;
        };
        cold_path();
        !limiter.last_was_reply && self.has_data_to_send()
    }

    /// Sends replies to the peer; those with data no faster than the rate allows.
    pub(super) fn transmit_replies(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        let Some(responder) = self.service.responder_mut() else {
            return Ok(Turn::Idle);
        };
        let is_unlimited = self.limiter.is_none() && self.congestion_started;
        if is_unlimited || responder.has_only_ack_to_send() {
            return responder.transmit(cx, port, &self.core, budget);
        }
        cold_path();
        match responder.replies_before_data() {
            Some(0) => self.transmit_slowly(cx, port, budget, true),
            // The replies behind these are limited.
            before => {
                let budget = budget.min(before.unwrap_or(budget));
                responder.transmit(cx, port, &self.core, budget)
            }
        }
    }

    /// Sends posted requests, no faster than the rate allows.
    #[inline]
    pub(super) fn transmit_work(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        if self.limiter.is_some() || !self.congestion_started {
            cold_path();
            return self.transmit_slowly(cx, port, budget, false);
        }
        let Self { service, core, .. } = self;
        service.transmit_requests(cx, port, core, budget)
    }

    /// Sends as much as the limit allows, from one half of the QP: replies if `replies` is true,
    /// otherwise requests.
    fn transmit_slowly(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        budget: usize,
        replies: bool,
    ) -> Result<Turn, QpFailure> {
        if !self.congestion_started {
            self.start_congestion_control(cx);
        }
        let Some(budget) = self.allowance(cx, budget) else {
            return Ok(Turn::Idle);
        };
        let before = bytes_sent(cx);
        let Self { service, core, .. } = self;
        let turn = match service.responder_mut() {
            Some(responder) if replies => responder.transmit(cx, port, core, budget)?,
            _ => service.transmit_requests(cx, port, core, budget)?,
        };
        let bytes = bytes_sent(cx) - before;
        let Some(limiter) = &mut self.limiter else {
            return Ok(turn);
        };
        if bytes > 0 {
            limiter.on_sent(cx.now, bytes, &cx.nic.congestion.control);
            limiter.last_was_reply = replies;
        }
        // The rest is sent after the pause.
        let pauses = turn == Turn::More && limiter.paused_until().is_some();
        Ok(if pauses { Turn::Idle } else { turn })
    }

    /// The number of packets that may leave now; `None` if none may.
    fn allowance(&mut self, cx: &Cx<'_>, budget: usize) -> Option<usize> {
        let longest = self.core.config.mtu() + OVERHEAD;
        if let Some(limiter) = &mut self.limiter {
            let packets = limiter.allowed(cx.now, longest, &cx.nic.congestion.control);
            let is_over = limiter.is_over(&cx.nic.congestion.control);
            if is_over {
                self.service.set_congestion_window(None);
            }
            if !is_over || !limiter.drop_law() {
                return (packets > 0).then(|| packets.min(budget));
            }
            self.limiter = None;
        }
        Some(budget)
    }

    fn admit_cnp(&self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        self.admit_address(meta)?;
        // A CNP has the key of the packet that was marked: the QP's own, with which a limited
        // member accepts no other packet.
        let own = self.core.config.pkey;
        if own != packet.bth.pkey {
            self.admit_partition(packet)?;
        }
        if self.state_allows_cnps() {
            Ok(())
        } else {
            Err(DropReason::WrongState)
        }
    }

    fn state_allows_cnps(&self) -> bool {
        !matches!(
            self.core.state,
            QpState::Reset | QpState::Init | QpState::Err
        )
    }

    /// Notes that a packet of the peer was marked.
    pub(super) fn note_mark(&mut self, cx: &mut Cx<'_>, packet: &Packet<'_>) {
        self.congestion_counts.marked += 1;
        if !self.core.kind.is_connected() {
            return;
        }
        if self.notifier.on_marked(cx.now, packet.bth.pkey) {
            cx.outcome.cnp_due = true;
        } else {
            self.congestion_counts.suppressed += 1;
            cx.nic.counters.count(Stat::CnpsSuppressed);
        }
    }

    /// Sends the CNP that is due, if one is.
    // rule: CA17-44-cnp-sent
    pub(crate) fn transmit_cnp(&mut self, cx: &mut Cx<'_>, port: &mut dyn Transmit) -> Turn {
        let Some(pkey) = self.notifier.pending() else {
            return Turn::Idle;
        };
        let path = self.core.config.path.filter(|_| self.state_allows_cnps());
        let Some(path) = path else {
            self.notifier.forget();
            return Turn::Idle;
        };
        let path = TxMeta {
            traffic_class: cx.nic.congestion.notification.traffic_class(),
            ..path
        };
        // A CNP is not part of the sequence of packets: its PSN is 0.
        let mut bth = Bth::new(Opcode::CNP, self.core.config.dest_qpn, Psn::ZERO);
        // rule: A17.9.3-cnp-fields
        (bth.pkey, bth.mig_req) = (pkey, false);
        bth.becn = true;
        let repr = PacketRepr {
            bth,
            ext: ExtHeaders::NONE,
        };
        if emit(cx, port, &path, self.core.qpn, &repr, 0, |_, _| Ok(())) == Err(EmitError::Full) {
            return Turn::PortFull;
        }
        cx.nic.counters.count(Stat::CnpsSent);
        self.congestion_counts.sent += 1;
        self.notifier
            .on_sent(cx.now, &cx.nic.congestion.notification);
        Turn::Idle
    }
}

/// The bytes that this NIC has sent so far, headers included.
fn bytes_sent(cx: &Cx<'_>) -> u64 {
    cx.nic.counters.stat(Stat::TxBytes) + cx.nic.counters.stat(Stat::TxPackets) * OVERHEAD as u64
}
