//! The packets of UC messages (IBTA 1.7, 9.8.2).

use super::{NextPacket, SendWqe};
use crate::qp::Core;
use crate::qp::posted::{Posted, message_len};
use crate::queue::PayloadSource;
use crate::wr::{PostError, SendFlags, SendOp, SendRequest};
use roce_wire::{Bth, ExtHeaders, ImmDt, Opcode, PacketRepr, Psn, Reth};

/// Checks a request. Returns its length.
pub(super) fn check(
    request: &SendRequest<'_>,
    source: PayloadSource<'_>,
) -> Result<u32, PostError> {
    message_len(&request.op, source)
}

/// The packet that carries the request's bytes from `offset` on; `None` if the QP has no path.
#[inline]
pub(super) fn packet<'a>(
    core: &'a Core,
    wqe: &SendWqe,
    offset: u32,
    psn: Psn,
) -> Option<NextPacket<'a>> {
    let request = &wqe.request;
    let rest = request.len - offset;
    let mtu = u32::try_from(core.config.mtu()).unwrap_or(u32::MAX);
    let payload = rest.min(mtu);
    let (is_first, is_last) = (offset == 0, payload == rest);

    let opcode = opcode(&request.op, is_first, is_last);
    // rule: 9.8.2-ackreq-clear
    let mut bth = Bth::new(opcode, core.config.dest_qpn, psn);
    bth.pkey = core.config.pkey;
    bth.solicited =
        is_last && request.flags.contains(SendFlags::SOLICITED) && request.op.consumes_receive();
    let ext = headers(request, is_first, is_last);
    Some(NextPacket {
        path: core.config.path.as_ref()?,
        repr: PacketRepr { bth, ext },
        payload,
        is_last,
    })
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

/// The extended headers of the packet.
fn headers(request: &Posted, is_first: bool, is_last: bool) -> ExtHeaders {
    let mut ext = ExtHeaders::NONE;
    if let SendOp::Write(remote) | SendOp::WriteImm(remote, _) = request.op
        && is_first
    {
        ext.reth = Some(Reth {
            va: remote.addr,
            rkey: remote.rkey,
            dma_len: request.len,
        });
    }
    if let SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) = request.op
        && is_last
    {
        ext.imm = Some(ImmDt(imm));
    }
    ext
}
