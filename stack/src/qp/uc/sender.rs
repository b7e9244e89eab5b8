//! The sending half of a UC QP.

use crate::qp::emit::{EmitError, emit};
use crate::qp::queue::{QueueLimits, Source};
use crate::qp::sends::{SendQueue, SendWqe};
use crate::qp::{Core, Cx, Fault, QpState, Turn, local, sgl};
use crate::transmit::Transmit;
use crate::wr::{MAX_MESSAGE_BYTES, PostError, SendFlags, SendOp, SendWr, WcStatus};
use roce_wire::{Bth, ExtHeaders, ImmDt, Opcode, PacketRepr, Psn, Reth};

/// Cuts messages into packets, one after the other.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) sq: SendQueue,
    /// What the next packet carries.
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
    pub(crate) fn check(&self, source: Source<'_>) -> Result<u32, PostError> {
        self.sq.check_source(source)?;
        let bytes = sgl::source_len(source);
        match u32::try_from(bytes) {
            Ok(len) if bytes <= MAX_MESSAGE_BYTES => Ok(len),
            _ => Err(PostError::MessageTooLong { bytes }),
        }
    }

    /// Appends a request to the send queue.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        wr: &SendWr<'_>,
        source: Source<'_>,
    ) -> Result<(), PostError> {
        let len = self.check(source)?;
        self.sq.post(core, wr, source, len)
    }

    /// Whether there is something to send.
    pub(crate) fn wants_to_send(&self, core: &Core) -> bool {
        self.sq.current(core.state == QpState::Sqd).is_some()
    }

    /// Sends up to `budget` packets.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, Fault> {
        for _ in 0..budget {
            if self.do_locally(cx, core)? {
                continue;
            }
            match self.send_next(cx, port, core) {
                Ok(None) => return Ok(Turn::Idle),
                Ok(Some((bytes, is_last))) => {
                    // rule: 9.8.2-psn-each
                    self.psn = self.psn.next();
                    self.sq.left(cx, core, bytes, is_last)?;
                }
                Err(EmitError::Full) => return Ok(Turn::PortFull),
                Err(EmitError::Access(_)) => {
                    return Err(Fault::Send(WcStatus::LocalProtectionError));
                }
            }
        }
        Ok(Turn::More)
    }

    /// Does the oldest request, if it is one that needs no packet: all before it have
    /// completed. Returns whether it was.
    fn do_locally(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<bool, Fault> {
        match self.sq.current(core.state == QpState::Sqd) {
            Some((wqe, ..)) if wqe.op.is_local() => {
                local::perform(cx, core, &wqe.op)?;
                self.sq.complete_front(cx, core, WcStatus::Success)
            }
            _ => Ok(false),
        }
    }

    /// Sends one packet. Returns how many bytes it had and whether it was the
    /// message's last, or `None` if there is nothing to send.
    fn send_next(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
    ) -> Result<Option<(u32, bool)>, EmitError> {
        let drains = core.state == QpState::Sqd;
        let Some((wqe, source, offset)) = self.sq.current(drains) else {
            return Ok(None);
        };
        let mtu = core.config.mtu();
        let rest = wqe.len - offset;
        let payload = usize::try_from(rest).unwrap_or(mtu).min(mtu);
        // No more than `rest`, so it fits in 32 bits.
        let bytes = u32::try_from(payload).unwrap_or(rest);
        let (is_first, is_last) = (offset == 0, bytes == rest);

        let opcode = opcode(&wqe.op, is_first, is_last);
        // rule: 9.8.2-ackreq-clear
        let mut bth = Bth::new(opcode, core.config.dest_qpn, self.psn);
        bth.pkey = core.config.pkey;
        bth.solicited =
            is_last && wqe.flags.contains(SendFlags::SOLICITED) && wqe.op.consumes_receive();
        let ext = headers(&wqe, is_first, is_last);
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let repr = PacketRepr { bth, ext };
        emit(cx, port, path, core.qpn, &repr, payload, |cx, packet| {
            sgl::fetch(cx.memory, core.pd, source, offset.into(), packet)
        })?;
        Ok(Some((bytes, is_last)))
    }
}

/// The opcode of a packet, by its place in the message.
fn opcode(op: &SendOp, is_first: bool, is_last: bool) -> Opcode {
    let writes = matches!(op, SendOp::Write(_) | SendOp::WriteImm(..));
    let with_imm = matches!(op, SendOp::SendImm(_) | SendOp::WriteImm(..));
    match (writes, is_first, is_last, with_imm) {
        (false, true, false, _) => Opcode::UC_SEND_FIRST,
        (false, false, false, _) => Opcode::UC_SEND_MIDDLE,
        (false, false, true, false) => Opcode::UC_SEND_LAST,
        (false, false, true, true) => Opcode::UC_SEND_LAST_WITH_IMMEDIATE,
        (false, true, true, false) => Opcode::UC_SEND_ONLY,
        (false, true, true, true) => Opcode::UC_SEND_ONLY_WITH_IMMEDIATE,
        (true, true, false, _) => Opcode::UC_WRITE_FIRST,
        (true, false, false, _) => Opcode::UC_WRITE_MIDDLE,
        (true, false, true, false) => Opcode::UC_WRITE_LAST,
        (true, false, true, true) => Opcode::UC_WRITE_LAST_WITH_IMMEDIATE,
        (true, true, true, false) => Opcode::UC_WRITE_ONLY,
        (true, true, true, true) => Opcode::UC_WRITE_ONLY_WITH_IMMEDIATE,
    }
}

/// The headers that go with it.
fn headers(wqe: &SendWqe, is_first: bool, is_last: bool) -> ExtHeaders {
    let mut ext = ExtHeaders::NONE;
    if let SendOp::Write(remote) | SendOp::WriteImm(remote, _) = wqe.op
        && is_first
    {
        ext.reth = Some(Reth {
            va: remote.addr,
            rkey: remote.rkey,
            dma_len: wqe.len,
        });
    }
    if let SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) = wqe.op
        && is_last
    {
        ext.imm = Some(ImmDt(imm));
    }
    ext
}
