//! What a QP does about congestion (RoCEv2 Annex A17.9).

use super::emit::{EmitError, emit};
use super::{Cx, Fault, Qp, QpState, Turn};
use crate::congestion::limiter::Limiter;
use crate::counters::{DropReason, Stat};
use crate::port::{Port, RxMeta, TxMeta};
use crate::time::Instant;
use roce_wire::{Bth, ExtHeaders, Opcode, Packet, PacketRepr, Psn};

/// What a packet takes of a link besides its payload: from the Ethernet header to the
/// frame check sequence.
const OVERHEAD: usize = 62;

impl Qp {
    /// Takes a CNP whose ICRC has been verified.
    // rule: A17.9.3-cnp-taken
    pub(crate) fn receive_cnp(&mut self, cx: &mut Cx<'_>, meta: &RxMeta, packet: &Packet<'_>) {
        match self.admit_cnp(meta, packet) {
            Ok(()) => {
                cx.counters.count(Stat::CnpsReceived);
                self.slow_down(cx);
            }
            Err(reason) => cx.counters.drop(reason),
        }
    }

    // rule: A17.9.2-rate
    fn slow_down(&mut self, cx: &mut Cx<'_>) {
        let Some(parameters) = cx.congestion.dcqcn() else {
            return;
        };
        match &mut self.limiter {
            Some(limiter) => limiter.on_cnp(cx.now, parameters),
            // It has no peer, so it has nobody to be slower for.
            None if !self.core.kind.is_connected() => {}
            None => self.limiter = Some(Box::new(Limiter::new(cx.now, parameters))),
        }
    }

    /// Until when it may not send data, if congestion limits it.
    pub(super) fn pause(&self) -> Option<Instant> {
        self.limiter.as_ref()?.waits()
    }

    /// Whether it may not send data now either.
    pub(super) fn still_pauses(&mut self, cx: &Cx<'_>) -> bool {
        let Some(limiter) = &mut self.limiter else {
            return false;
        };
        match cx.congestion.dcqcn() {
            Some(parameters) => limiter.wake(cx.now, parameters),
            None => self.limiter = None,
        }
        self.pause().is_some()
    }

    /// Whether it is the turn of answers with data: requests had the last burst. If they
    /// always went first, they would leave nothing of a low rate.
    pub(super) fn answers_go_first(&self) -> bool {
        let limiter = self.limiter.as_ref();
        limiter.is_some_and(|limiter| !limiter.answered) && self.service.owes_data()
    }

    /// Sends what the peer is owed; data of it no faster than the QP may.
    pub(super) fn transmit_replies(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Port,
        budget: usize,
    ) -> Result<Turn, Fault> {
        if self.limiter.is_some() && self.service.owes_data() {
            return self.transmit_slowly(cx, port, budget, true);
        }
        self.service.transmit_replies(cx, port, &self.core, budget)
    }

    /// Sends what was posted, no faster than the QP may.
    #[inline]
    pub(super) fn transmit_work(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Port,
        budget: usize,
    ) -> Result<Turn, Fault> {
        if self.limiter.is_some() {
            return self.transmit_slowly(cx, port, budget, false);
        }
        let Self { service, core, .. } = self;
        service.transmit_requests(cx, port, core, budget)
    }

    /// Lets a half send as much as the limit allows.
    #[cold]
    fn transmit_slowly(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Port,
        budget: usize,
        answers: bool,
    ) -> Result<Turn, Fault> {
        let Some(budget) = self.allowance(cx, budget) else {
            return Ok(Turn::Idle);
        };
        let before = bytes_sent(cx);
        let Self { service, core, .. } = self;
        let turn = if answers {
            service.transmit_replies(cx, port, core, budget)?
        } else {
            service.transmit_requests(cx, port, core, budget)?
        };
        let bytes = bytes_sent(cx) - before;
        let Some((limiter, parameters)) = self.limiter.as_mut().zip(cx.congestion.dcqcn()) else {
            return Ok(turn);
        };
        if bytes > 0 {
            limiter.on_sent(cx.now, bytes, parameters);
            limiter.answered = answers;
        }
        // What remains is for after the pause.
        let pauses = turn == Turn::More && limiter.waits().is_some();
        Ok(if pauses { Turn::Idle } else { turn })
    }

    /// How many packets may leave now, if any.
    fn allowance(&mut self, cx: &Cx<'_>, budget: usize) -> Option<usize> {
        let longest = self.core.config.mtu() + OVERHEAD;
        if let Some((limiter, parameters)) = self.limiter.as_mut().zip(cx.congestion.dcqcn()) {
            let packets = limiter.allowed(cx.now, longest, parameters);
            if !limiter.is_over(parameters) {
                return (packets > 0).then(|| packets.min(budget));
            }
        }
        self.limiter = None;
        Some(budget)
    }

    fn admit_cnp(&self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        self.admit_peer(meta, packet)?;
        if self.hears_of_congestion() {
            Ok(())
        } else {
            Err(DropReason::WrongState)
        }
    }

    fn hears_of_congestion(&self) -> bool {
        !matches!(
            self.core.state,
            QpState::Reset | QpState::Init | QpState::Err
        )
    }

    /// The peer's packet has met congestion.
    pub(super) fn note_mark(&mut self, cx: &mut Cx<'_>) {
        if !self.core.kind.is_connected() {
            return;
        }
        if self.notifier.on_marked(cx.now) {
            cx.owes_notice = true;
        } else {
            cx.counters.count(Stat::CnpsSuppressed);
        }
    }

    /// Sends the CNP that is owed, if one is.
    // rule: A17.9.2-cnp-sent
    pub(crate) fn transmit_notice(&mut self, cx: &mut Cx<'_>, port: &mut dyn Port) -> Turn {
        if !self.notifier.is_owed() {
            return Turn::Idle;
        }
        let path = self.core.config.path.filter(|_| self.hears_of_congestion());
        let Some(path) = path else {
            self.notifier.forget();
            return Turn::Idle;
        };
        let path = TxMeta {
            traffic_class: cx.congestion.notification.traffic_class(),
            ..path
        };
        // A CNP is none of the packets that are counted: its PSN is 0.
        let mut bth = Bth::new(Opcode::CNP, self.core.config.dest_qpn, Psn::new(0));
        bth.pkey = self.core.config.pkey;
        bth.becn = true;
        let repr = PacketRepr {
            bth,
            ext: ExtHeaders::NONE,
        };
        if emit(cx, port, &path, &repr, 0, |_, _| Ok(())) == Err(EmitError::Full) {
            return Turn::PortFull;
        }
        cx.counters.count(Stat::CnpsSent);
        self.notifier.on_sent(cx.now, &cx.congestion.notification);
        Turn::Idle
    }
}

/// What this NIC has sent so far, with headers.
fn bytes_sent(cx: &Cx<'_>) -> u64 {
    cx.counters.stat(Stat::TxBytes) + cx.counters.stat(Stat::TxPackets) * OVERHEAD as u64
}
