//! The completion of a receive.

use super::{Core, Cx, QpFailure, Receives, sgl};
use crate::cause::Cause;
use crate::memory::{Access, MemoryTable, PdId};
use crate::wr::{Completion, DatagramSource, Sge, WcOpcode, WcStatus};

/// What a receive completion reports about the message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) bytes: u32,
    pub(crate) by_write: bool,
    pub(crate) solicited: bool,
    pub(crate) imm: Option<u32>,
    pub(crate) invalidated: Option<u32>,
    pub(crate) source: Option<DatagramSource>,
}

// rule: 9.5-received-in-order
/// Completes the oldest receive. `Ok(false)` if there is none.
pub(crate) fn complete(
    rq: &mut Receives,
    cx: &mut Cx<'_>,
    core: &Core,
    status: WcStatus,
    arrival: Arrival,
) -> Result<bool, QpFailure> {
    // rule: 9.4.1-one-receive-each
    let Some(wqe) = rq.pop() else {
        return Ok(false);
    };
    let opcode = if arrival.by_write {
        WcOpcode::RecvRdmaWithImm
    } else {
        WcOpcode::Recv
    };
    let completion = Completion {
        // rule: 11.6.2-wr-id
        wr_id: wqe.wr_id,
        status,
        opcode,
        byte_len: arrival.bytes,
        qpn: core.qpn,
        imm: arrival.imm,
        invalidated_rkey: arrival.invalidated,
        source: arrival.source,
    };
    let (cq, entry) = (rq.cq(core), rq.entry_guard());
    cx.complete(core, cq, completion, arrival.solicited, entry)?;
    Ok(true)
}

/// Why bytes of a message, from byte `offset` on, can't be written to the elements of a receive.
#[cold]
pub(crate) fn memory_cause(
    memory: &MemoryTable,
    pd: PdId,
    sges: &[Sge],
    (offset, len): (u64, usize),
) -> Cause {
    let range = (offset, len as u64);
    match sgl::denied(memory, pd, sges, range, Access::LOCAL_WRITE) {
        Some((element, denied)) => Cause::ReceiveMemory { element, denied },
        // A receive without elements takes no bytes.
        None => Cause::MessageTooLong {
            arrived: offset + len as u64,
            receive: 0,
        },
    }
}

// rule: 11.6.2-flushed
/// Flushes the oldest receive. `Ok(false)` if there is none.
pub(crate) fn flush(rq: &mut Receives, cx: &mut Cx<'_>, core: &Core) -> Result<bool, QpFailure> {
    complete(
        rq,
        cx,
        core,
        WcStatus::WorkRequestFlushed,
        Arrival::default(),
    )
}
