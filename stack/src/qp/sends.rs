//! The send queue of services without acknowledgements: a request completes when its
//! last packet has left (IBTA 1.7, 9.8.1).

use super::queue::{QueueLimits, Room, Source, WorkQueue};
use super::{Core, Cx, Fault};
use crate::wr::{Completion, PostError, SendFlags, SendOp, SendWr, WcStatus};

/// A posted send request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    pub(crate) len: u32,
}

/// Send requests, of which the oldest may have been begun.
#[derive(Debug)]
pub(crate) struct SendQueue {
    queue: WorkQueue<SendWqe>,
    /// Bytes of the oldest request that have left.
    offset: u32,
    /// Whether any packet of the oldest request has left.
    begun: bool,
    /// State SQD was entered and its end not told yet.
    drain_pending: bool,
}

impl SendQueue {
    pub(crate) fn new(limits: QueueLimits, max_inline: usize) -> Self {
        Self {
            queue: WorkQueue::with_inline(limits, max_inline),
            offset: 0,
            begun: false,
            drain_pending: false,
        }
    }

    /// The room of a request that completes.
    pub(crate) fn room(&self) -> Room {
        self.queue.room()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Checks that a request whose bytes come from there can be added.
    pub(crate) fn check_source(&self, source: Source<'_>) -> Result<(), PostError> {
        self.queue.check_source(source)
    }

    /// Appends a request of `len` bytes.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        wr: &SendWr<'_>,
        source: Source<'_>,
        len: u32,
    ) -> Result<(), PostError> {
        let flags = if core.signal_all {
            wr.flags | SendFlags::SIGNALED
        } else {
            wr.flags
        };
        let wqe = SendWqe {
            wr_id: wr.wr_id,
            op: wr.op,
            flags,
            len,
        };
        self.queue.push_from(wqe, source)
    }

    /// Forgets everything that was posted.
    pub(crate) fn reset(&mut self) {
        self.queue.clear();
        self.offset = 0;
        self.begun = false;
        self.drain_pending = false;
    }

    /// The oldest request, where its bytes are, and how many of its bytes have left. In state
    /// SQD only one that was begun (IBTA 1.7, 10.3.1.5).
    pub(crate) fn current(&self, drains: bool) -> Option<(SendWqe, Source<'_>, u32)> {
        let wqe = self.queue.front().filter(|_| self.begun || !drains)?;
        Some((*wqe, self.queue.source(0), self.offset))
    }

    /// Takes note that a packet with so many bytes of the oldest request has left, and
    /// completes the request if that was the last.
    pub(crate) fn left(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        bytes: u32,
        is_last: bool,
    ) -> Result<(), Fault> {
        self.offset += bytes;
        self.begun = true;
        // rule: 9.8.2-completes-when-sent
        if is_last {
            self.complete_front(cx, core, WcStatus::Success)?;
        }
        Ok(())
    }

    /// Completes the oldest request with `status`. `Ok(false)` if there is none.
    pub(crate) fn complete_front(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<bool, Fault> {
        let Some(wqe) = self.queue.pop() else {
            return Ok(false);
        };
        self.offset = 0;
        self.begun = false;
        if status != WcStatus::Success || wqe.flags.contains(SendFlags::SIGNALED) {
            let completion = Completion {
                wr_id: wqe.wr_id,
                status,
                opcode: wqe.op.completion_opcode(),
                byte_len: wqe.len,
                qpn: core.qpn,
                imm: None,
                invalidated_rkey: None,
                source: None,
            };
            cx.complete(&core.send_cq, completion, false, Some(self.room()))?;
        }
        Ok(true)
    }

    /// Brings near what is sent next.
    pub(crate) fn foresee_turn(&self) {
        self.queue.bring_near(0);
    }

    /// State SQD begins: [`SendQueue::take_drained`] will tell when it is done.
    pub(crate) fn begin_drain(&mut self) {
        self.drain_pending = true;
    }

    /// Whether all that was begun has just completed. True once per drain.
    pub(crate) fn take_drained(&mut self) -> bool {
        let drained = self.drain_pending && !self.begun;
        self.drain_pending &= !drained;
        drained
    }
}
