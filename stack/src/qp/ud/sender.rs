//! The sending half of a UD QP.

use crate::address::Destination;
use crate::qp::emit::{EmitError, emit};
use crate::qp::queue::{QueueLimits, Source};
use crate::qp::sends::SendQueue;
use crate::qp::{Core, Cx, Fault, QpState, Turn, sgl};
use crate::transmit::Transmit;
use crate::wr::{PostError, SendFlags, SendOp, SendWr, WcStatus};
use roce_wire::{Bth, Deth, ExtHeaders, ImmDt, Opcode, PacketRepr, Psn, QKey};

/// Sends messages of one packet.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) sq: SendQueue,
    /// What the next packet carries; nobody looks at it.
    psn: Psn,
}

impl Sender {
    pub(crate) fn new(limits: QueueLimits, max_inline: usize) -> Self {
        Self {
            sq: SendQueue::new(limits, max_inline),
            psn: Psn::new(0),
        }
    }

    /// The PSN of the next packet.
    pub(crate) fn next_psn(&self) -> Psn {
        self.psn
    }

    /// RTR to RTS.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.sq.reset();
        self.psn = psn;
    }

    /// Checks a request without posting it. Returns its length.
    pub(crate) fn check(
        &self,
        core: &Core,
        wr: &SendWr<'_>,
        source: Source<'_>,
    ) -> Result<u32, PostError> {
        self.sq.check_source(source)?;
        if destination(&wr.op).is_some_and(|to| to.ah.pd != core.pd) {
            // rule: 9.8.3-ah-pd
            return Err(PostError::ForeignAddress);
        }
        let bytes = sgl::source_len(source);
        let mtu = core.config.mtu();
        match u32::try_from(bytes) {
            Ok(len) if bytes <= mtu as u64 => Ok(len),
            // rule: 9.8.3-too-long-refused
            _ => Err(PostError::DatagramTooLong { bytes, mtu }),
        }
    }

    /// Appends a request to the send queue.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        wr: &SendWr<'_>,
        source: Source<'_>,
    ) -> Result<(), PostError> {
        let len = self.check(core, wr, source)?;
        self.sq.post(core, wr, source, len)
    }

    /// Whether there is something to send.
    pub(crate) fn wants_to_send(&self, core: &Core) -> bool {
        self.sq.current(core.state == QpState::Sqd).is_some()
    }

    /// Sends up to `budget` messages.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, Fault> {
        for _ in 0..budget {
            match self.send_next(cx, port, core) {
                Ok(None) => return Ok(Turn::Idle),
                Ok(Some(bytes)) => {
                    self.psn = self.psn.next();
                    // rule: 9.8.3-completes-when-sent
                    self.sq.left(cx, core, bytes, true)?;
                }
                Err(EmitError::Full) => return Ok(Turn::PortFull),
                Err(EmitError::Access(_)) => {
                    return Err(Fault::Send(WcStatus::LocalProtectionError));
                }
            }
        }
        Ok(Turn::More)
    }

    /// Sends one message. Returns how many bytes it had, or `None` if there is nothing
    /// to send.
    fn send_next(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
    ) -> Result<Option<u32>, EmitError> {
        let drains = core.state == QpState::Sqd;
        let Some((wqe, source, _)) = self.sq.current(drains) else {
            return Ok(None);
        };
        let Some(to) = destination(&wqe.op) else {
            return Ok(None);
        };
        let (opcode, imm) = match wqe.op {
            SendOp::SendImmTo(_, imm) => (Opcode::UD_SEND_ONLY_WITH_IMMEDIATE, Some(ImmDt(imm))),
            // rule: 9.8.3-single-packet
            _ => (Opcode::UD_SEND_ONLY, None),
        };
        // rule: 9.8.3-ackreq-clear
        let mut bth = Bth::new(opcode, to.qpn, self.psn);
        bth.pkey = core.config.pkey;
        bth.solicited = wqe.flags.contains(SendFlags::SOLICITED);
        // rule: 9.8.3-deth
        let deth = Deth {
            qkey: sent_qkey(to.qkey, core.config.qkey),
            src_qpn: core.qpn,
        };
        let ext = ExtHeaders {
            deth: Some(deth),
            imm,
            ..ExtHeaders::NONE
        };
        let repr = PacketRepr { bth, ext };
        let payload = usize::try_from(wqe.len).unwrap_or(usize::MAX);
        emit(
            cx,
            port,
            to.ah.path(),
            core.qpn,
            &repr,
            payload,
            |cx, packet| sgl::fetch(cx.memory, core.pd, source, 0, packet),
        )?;
        Ok(Some(wqe.len))
    }
}

/// Where the operation sends to.
fn destination(op: &SendOp) -> Option<&Destination> {
    match op {
        SendOp::SendTo(to) | SendOp::SendImmTo(to, _) => Some(to),
        _ => None,
    }
}

/// A request's key with the highest bit set stands for the QP's own, which only the
/// owner of the QP could set (IBTA 1.7, 10.2.5).
// rule: 9.8.3-qkey-controlled
fn sent_qkey(requested: QKey, own: QKey) -> QKey {
    if requested.0 & 1 << 31 != 0 {
        own
    } else {
        requested
    }
}
