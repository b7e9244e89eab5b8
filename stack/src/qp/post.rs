//! Posting of requests, as the QP's state allows (IBTA 1.7, 10.3.1).

use super::{Cx, Qp, sgl};
use crate::kind::{QpKind, QpState};
use crate::memory::MemoryTable;
use crate::queue::{MAX_INLINE_BYTES, PayloadSource};
use crate::wr::{
    Payload, PostError, RecvRequest, SendFlags, SendRequest, Sge, Target, WcOpcode, total_len,
};
use core::hint::cold_path;

impl Qp {
    /// Whether posting a send request queues it and does nothing else.
    // rule: 10.3.1-sqd-posting
    #[inline]
    pub(crate) fn queues_sends(&self) -> bool {
        matches!(self.core.state, QpState::Rts | QpState::Sqd)
    }

    /// Adds a request to the send queue, and returns its length. [`Qp::queues_sends`] must hold.
    pub(crate) fn queue_send(
        &mut self,
        memory: &MemoryTable,
        request: &SendRequest<'_>,
    ) -> Result<u32, PostError> {
        self.check_service(request)?;
        let mut buffer = None;
        let source = self.source(memory, request, &mut buffer)?;
        self.service.post_send(&self.core, request, source)
    }

    /// Posts a send request, in any state: queues it, flushes it in an error state, or refuses it.
    pub(crate) fn post_send(
        &mut self,
        cx: &mut Cx<'_>,
        request: &SendRequest<'_>,
    ) -> Result<(), PostError> {
        if self.queues_sends() {
            self.queue_send(&cx.nic.memory, request)?;
            return Ok(());
        }
        self.check_service(request)?;
        let mut buffer = None;
        let source = self.source(&cx.nic.memory, request, &mut buffer)?;
        match self.core.state {
            QpState::Err | QpState::Sqe => {
                self.service.check_send(&self.core, request, source)?;
                let flushed = self.flush_one(cx, request.wr_id, request.op.completion_opcode());
                // In the error state, the CQ's own event reports the overrun.
                if let (QpState::Sqe, Err(overrun)) = (self.core.state, flushed) {
                    self.fail(cx, Some(overrun));
                }
                Ok(())
            }
            // rule: 10.3.1-init-receives
            state => Err(PostError::InvalidState(state)),
        }
    }

    /// The source of a request's bytes. Inline data given as elements is copied to `buffer`.
    #[inline]
    fn source<'r>(
        &self,
        memory: &MemoryTable,
        request: &'r SendRequest<'_>,
        buffer: &'r mut Option<[u8; MAX_INLINE_BYTES]>,
    ) -> Result<PayloadSource<'r>, PostError> {
        let elements = request.payload.elements();
        let data = match request.payload {
            Payload::Inline(data) => data,
            _ if request.flags.contains(SendFlags::INLINE) => {
                self.copy(memory, elements, buffer.insert([0; MAX_INLINE_BYTES]))?
            }
            _ => return Ok(PayloadSource::Memory(elements)),
        };
        if !request.op.sends_bytes() {
            return Err(PostError::NotInline(request.op.completion_opcode()));
        }
        Ok(PayloadSource::Inline(data))
    }

    /// Copies the elements' bytes to `buffer`. Returns the part of `buffer` that holds them.
    fn copy<'r>(
        &self,
        memory: &MemoryTable,
        elements: &[Sge],
        buffer: &'r mut [u8; MAX_INLINE_BYTES],
    ) -> Result<&'r [u8], PostError> {
        let len = self.service.inline_len(total_len(elements))?;
        let data = &mut buffer[..len];
        sgl::gather(memory, self.core.pd, elements, 0, data).map_err(PostError::InlineMemory)?;
        Ok(data)
    }

    /// Checks that the QP's service supports the operation and the target.
    #[inline]
    fn check_service(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let kind = self.core.kind;
        let reaches = match request.target {
            Target::Peer => kind != QpKind::Ud,
            Target::Srq(_) => kind == QpKind::XrcInitiator,
            Target::Datagram(_) => kind == QpKind::Ud,
        };
        if !reaches || !kind.supports(request.op.group()) {
            cold_path();
            let opcode = request.op.completion_opcode();
            return Err(PostError::WrongService { kind, opcode });
        }
        let unnamed = kind == QpKind::XrcInitiator && matches!(request.target, Target::Peer);
        if unnamed && !request.op.is_local() {
            cold_path();
            return Err(PostError::NoSrqNamed);
        }
        Ok(())
    }

    /// Adds a request to the receive queue.
    pub(crate) fn post_recv(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        let kind = self.core.kind;
        // rule: A14-no-recv-queue
        if kind.is_xrc() {
            return Err(PostError::NoReceiveQueue { kind });
        }
        match self.core.state {
            // rule: 10.3.1-reset-no-posting
            QpState::Reset => Err(PostError::InvalidState(QpState::Reset)),
            QpState::Err => {
                self.service.receives().check(wr)?;
                // The CQ's own event reports an overrun.
                let _ = self.flush_one(cx, wr.wr_id, WcOpcode::Recv);
                Ok(())
            }
            _ => {
                self.service.post_recv(wr)?;
                cx.observe.posted_receive();
                Ok(())
            }
        }
    }
}
