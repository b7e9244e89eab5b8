//! The part of a posted request that the send queue of every service keeps.

use super::{Core, Cx, QpFailure, sgl};
use crate::cause::{Cause, FailedRequest};
use crate::memory::Access;
use crate::queue::{PayloadSource, WorkQueue};
use crate::wr::{
    Completion, MAX_MESSAGE_BYTES, PostError, SendFlags, SendOp, SendRequest, WcStatus,
};

/// A posted request, without the fields of its service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    /// The length of its payload.
    pub(crate) len: u32,
}

impl Posted {
    #[inline]
    pub(crate) fn new(core: &Core, request: &SendRequest<'_>, len: u32) -> Self {
        // rule: 10.8.5-signal-all
        let flags = if core.signal_all {
            request.flags | SendFlags::SIGNALED
        } else {
            request.flags
        };
        Self {
            wr_id: request.wr_id,
            op: request.op,
            flags,
            len,
        }
    }

    /// The request, as a failure reports it.
    pub(crate) fn failed(&self) -> FailedRequest {
        FailedRequest {
            wr_id: self.wr_id,
            opcode: self.op.completion_opcode(),
            len: self.op.reported_len(self.len),
            remote: self.op.remote(),
        }
    }

    /// Why the memory of the request can't be used.
    pub(crate) fn memory_cause(
        &self,
        cx: &Cx<'_>,
        core: &Core,
        source: PayloadSource<'_>,
    ) -> Option<Cause> {
        let PayloadSource::Memory(sges) = source else {
            return None;
        };
        let rights = match self.op.sends_bytes() {
            true => Access::empty(),
            false => Access::LOCAL_WRITE,
        };
        let all = (0, u64::from(self.len));
        let (element, denied) = sgl::denied(&cx.nic.memory, core.pd, sges, all, rights)?;
        Some(Cause::RequestMemory { element, denied })
    }

    /// Completes the request, which has just left `queue`. An unsignaled request completes only
    /// with an error.
    #[inline]
    pub(crate) fn complete<T>(
        &self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
        queue: &WorkQueue<T>,
    ) -> Result<(), QpFailure> {
        let opcode = self.op.completion_opcode();
        // rule: 10.8.5-unsignaled
        if status == WcStatus::Success && !self.flags.contains(SendFlags::SIGNALED) {
            core.counters.count(opcode, status, self.len);
            return Ok(());
        }
        let completion = Completion {
            wr_id: self.wr_id,
            status,
            opcode,
            byte_len: self.len,
            qpn: core.qpn,
            imm: None,
            invalidated_rkey: None,
            source: None,
        };
        let (cq, entry) = (&core.send_cq, queue.entry_guard());
        cx.complete(core, cq, completion, false, Some(entry))
    }
}

/// The length of a connected service's message, if it is allowed.
#[inline]
pub(crate) fn message_len(op: &SendOp, source: PayloadSource<'_>) -> Result<u32, PostError> {
    if op.has_no_elements()
        && let PayloadSource::Memory(elements) = source
        && !elements.is_empty()
    {
        return Err(PostError::TooManySges {
            given: elements.len(),
            max: 0,
        });
    }
    let bytes = sgl::source_len(source);
    match u32::try_from(bytes) {
        // rule: 9.7.2-longest
        Ok(len) if bytes <= MAX_MESSAGE_BYTES => Ok(len),
        _ => Err(PostError::MessageTooLong { bytes }),
    }
}
