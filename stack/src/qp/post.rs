//! Requests are posted, as the QP's state allows (IBTA 1.7, 10.3.1).

use super::queue::Source;
use super::{Cx, MAX_INLINE_BYTES, Qp, QpKind, QpState, sgl};
use crate::memory::MemoryTable;
use crate::wr::{PostError, RecvWr, SendFlags, SendWr, WcOpcode};
use core::hint::cold_path;

impl Qp {
    /// Whether a send request that is posted goes to the send queue, and nothing else happens.
    // rule: 10.3.1-sqd-posting
    #[inline]
    pub(crate) fn queues_sends(&self) -> bool {
        matches!(self.core.state, QpState::Rts | QpState::Sqd)
    }

    /// Adds a request to the send queue of a QP that [`queues`](Qp::queues_sends) it. If bytes
    /// are given, they are what is sent; else they come from the request's elements.
    pub(crate) fn queue_send(
        &mut self,
        memory: &MemoryTable,
        wr: &SendWr<'_>,
        data: Option<&[u8]>,
    ) -> Result<(), PostError> {
        let mut room = None;
        let source = self.source(memory, wr, data, &mut room)?;
        self.check_service(wr)?;
        self.service.post_send(&self.core, wr, source)
    }

    /// Adds a request to the send queue, in any state.
    pub(crate) fn post_send(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        data: Option<&[u8]>,
    ) -> Result<(), PostError> {
        if self.queues_sends() {
            return self.queue_send(cx.memory, wr, data);
        }
        let mut room = None;
        let source = self.source(cx.memory, wr, data, &mut room)?;
        self.check_service(wr)?;
        match self.core.state {
            QpState::Err | QpState::Sqe => {
                self.service.check_send(&self.core, wr, source)?;
                let flushed = self.flush_one(cx, wr.wr_id, wr.op.completion_opcode());
                // In the error state the CQ's own event tells of an overrun.
                if let (QpState::Sqe, Err(overrun)) = (self.core.state, flushed) {
                    self.fail(cx, Some(overrun));
                }
                Ok(())
            }
            // rule: 10.3.1-init-receives
            state => Err(PostError::InvalidState(state)),
        }
    }

    /// Where the bytes of a request come from. Inline data that is not given yet goes to `room`.
    #[inline]
    fn source<'a>(
        &self,
        memory: &MemoryTable,
        wr: &SendWr<'a>,
        data: Option<&'a [u8]>,
        room: &'a mut Option<[u8; MAX_INLINE_BYTES]>,
    ) -> Result<Source<'a>, PostError> {
        let data = match data {
            Some(data) => data,
            None if wr.flags.contains(SendFlags::INLINE) => {
                self.copy(memory, wr, room.insert([0; MAX_INLINE_BYTES]))?
            }
            None => return Ok(Source::Memory(wr.sges)),
        };
        if !wr.op.sends_bytes() {
            return Err(PostError::NotInline(wr.op.completion_opcode()));
        }
        Ok(Source::Inline(data))
    }

    /// Copies what a request sends.
    fn copy<'a>(
        &self,
        memory: &MemoryTable,
        wr: &SendWr<'_>,
        room: &'a mut [u8; MAX_INLINE_BYTES],
    ) -> Result<&'a [u8], PostError> {
        let bytes = sgl::total_len(wr.sges);
        let data = usize::try_from(bytes)
            .ok()
            .and_then(|len| room.get_mut(..len))
            .ok_or(PostError::InlineTooLong {
                bytes,
                max: MAX_INLINE_BYTES,
            })?;
        sgl::gather(memory, self.core.pd, wr.sges, 0, data).map_err(PostError::InlineMemory)?;
        Ok(data)
    }

    /// Whether the QP's service has such requests at all.
    #[inline]
    fn check_service(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let kind = self.core.kind;
        if !kind.can_do(&wr.op) {
            cold_path();
            return Err(PostError::WrongService { kind });
        }
        if kind == QpKind::XrcInitiator && self.core.peer_srq.is_none() && !wr.op.is_local() {
            cold_path();
            return Err(PostError::NoSrqNamed);
        }
        Ok(())
    }

    /// Adds a request to the receive queue.
    pub(crate) fn post_recv(&mut self, cx: &mut Cx<'_>, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let kind = self.core.kind;
        // rule: A14-no-recv-queue
        if kind.is_xrc() {
            return Err(PostError::NoReceiveQueue { kind });
        }
        match self.core.state {
            // rule: 10.3.1-reset-no-posting
            QpState::Reset => Err(PostError::InvalidState(QpState::Reset)),
            QpState::Err => {
                self.service.check_recv(wr)?;
                // The CQ's own event tells of an overrun.
                let _ = self.flush_one(cx, wr.wr_id, WcOpcode::Recv);
                Ok(())
            }
            _ => self.service.post_recv(wr),
        }
    }
}
