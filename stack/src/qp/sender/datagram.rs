//! The packets of UD messages, one each (IBTA 1.7, 9.8.3).

use super::{NextPacket, SendWqe};
use crate::qp::{Core, sgl};
use crate::queue::PayloadSource;
use crate::wr::{PostError, SendFlags, SendOp, SendRequest, Target};
use roce_wire::{Bth, Deth, ExtHeaders, ImmDt, Opcode, PacketRepr, Psn, QKey};

/// Checks a request. Returns its length.
pub(super) fn check(
    core: &Core,
    request: &SendRequest<'_>,
    source: PayloadSource<'_>,
) -> Result<u32, PostError> {
    if let Target::Datagram(to) = &request.target
        && to.ah.pd != core.pd
    {
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

/// The packet of the request; `None` if the request's target is not a datagram's destination. The
/// QP refuses such requests when they are posted.
#[inline]
pub(super) fn packet<'a>(core: &Core, wqe: &'a SendWqe, psn: Psn) -> Option<NextPacket<'a>> {
    let Target::Datagram(to) = &wqe.target else {
        return None;
    };
    let request = &wqe.request;
    let (opcode, imm) = match request.op {
        SendOp::SendImm(imm) => (Opcode::UD_SEND_ONLY_WITH_IMMEDIATE, Some(ImmDt(imm))),
        // rule: 9.8.3-single-packet
        _ => (Opcode::UD_SEND_ONLY, None),
    };
    // rule: 9.8.3-ackreq-clear
    let mut bth = Bth::new(opcode, to.qpn, psn);
    bth.pkey = core.config.pkey;
    bth.solicited = request.flags.contains(SendFlags::SOLICITED);
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
    Some(NextPacket {
        path: to.ah.path(),
        repr: PacketRepr { bth, ext },
        payload: request.len,
        is_last: true,
    })
}

/// The Q_Key that the packet carries: the requested one, or the QP's own if the highest bit of the
/// requested one is set. Only the owner of the QP can set the QP's own (IBTA 1.7, 10.2.5).
// rule: 9.8.3-qkey-controlled
fn sent_qkey(requested: QKey, own: QKey) -> QKey {
    if requested.0 & 1 << 31 != 0 {
        own
    } else {
        requested
    }
}
