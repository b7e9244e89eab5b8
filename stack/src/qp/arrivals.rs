//! The completion of a receive, in services without acknowledgements.

use super::{Core, Cx, Fault, Receives};
use crate::wr::{Completion, Source, WcOpcode, WcStatus};

/// What a receive completion says about what arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) bytes: u32,
    pub(crate) by_write: bool,
    pub(crate) solicited: bool,
    pub(crate) imm: Option<u32>,
    pub(crate) source: Option<Source>,
}

/// Completes the oldest receive. `Ok(false)` if there is none.
pub(crate) fn complete(
    rq: &mut Receives,
    cx: &mut Cx<'_>,
    core: &Core,
    status: WcStatus,
    arrival: Arrival,
) -> Result<bool, Fault> {
    let Some(wqe) = rq.pop() else {
        return Ok(false);
    };
    let opcode = if arrival.by_write {
        WcOpcode::RecvRdmaWithImm
    } else {
        WcOpcode::Recv
    };
    let completion = Completion {
        wr_id: wqe.wr_id,
        status,
        opcode,
        byte_len: arrival.bytes,
        qpn: core.qpn,
        imm: arrival.imm,
        invalidated_rkey: None,
        source: arrival.source,
    };
    cx.complete(&core.recv_cq, completion, arrival.solicited)?;
    Ok(true)
}

/// Flushes the oldest receive. `Ok(false)` if there is none.
pub(crate) fn flush(rq: &mut Receives, cx: &mut Cx<'_>, core: &Core) -> Result<bool, Fault> {
    complete(
        rq,
        cx,
        core,
        WcStatus::WorkRequestFlushed,
        Arrival::default(),
    )
}
