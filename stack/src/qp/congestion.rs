//! What a QP does about congestion (RoCEv2 Annex A17.9).

use super::emit::{EmitError, emit};
use super::{Cx, Qp, QpState, Turn};
use crate::counters::{DropReason, Stat};
use crate::port::{Port, RxMeta, TxMeta};
use roce_wire::{Bth, ExtHeaders, Opcode, Packet, PacketRepr, Psn};

impl Qp {
    /// Takes a CNP whose ICRC has been verified.
    // rule: A17.9.3-cnp-taken
    pub(crate) fn receive_cnp(&mut self, cx: &mut Cx<'_>, meta: &RxMeta, packet: &Packet<'_>) {
        match self.admit_cnp(meta, packet) {
            Ok(()) => cx.counters.count(Stat::CnpsReceived),
            Err(reason) => cx.counters.drop(reason),
        }
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
