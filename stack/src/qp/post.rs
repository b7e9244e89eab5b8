//! Requests are posted, as the QP's state allows (IBTA 1.7, 10.3.1).

use super::queue::Source;
use super::{Cx, MAX_INLINE_BYTES, Qp, QpKind, QpState, sgl};
use crate::wr::{PostError, RecvWr, SendFlags, SendWr, WcOpcode};

impl Qp {
    /// Adds a request to the send queue, whose bytes come from its elements.
    pub(crate) fn post_send(&mut self, cx: &mut Cx<'_>, wr: &SendWr<'_>) -> Result<(), PostError> {
        if !wr.flags.contains(SendFlags::INLINE) {
            return self.post_from(cx, wr, Source::Memory(wr.sges));
        }
        let bytes = sgl::total_len(wr.sges);
        let mut room = [0; MAX_INLINE_BYTES];
        let data = usize::try_from(bytes)
            .ok()
            .and_then(|len| room.get_mut(..len))
            .ok_or(PostError::InlineTooLong {
                bytes,
                max: MAX_INLINE_BYTES,
            })?;
        sgl::gather(cx.memory, self.core.pd, wr.sges, 0, data).map_err(PostError::InlineMemory)?;
        self.post_inline(cx, wr, data)
    }

    /// Adds a request to the send queue, whose bytes are these.
    pub(crate) fn post_inline(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        data: &[u8],
    ) -> Result<(), PostError> {
        if !wr.op.sends_bytes() {
            return Err(PostError::NotInline(wr.op.completion_opcode()));
        }
        self.post_from(cx, wr, Source::Inline(data))
    }

    fn post_from(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        source: Source<'_>,
    ) -> Result<(), PostError> {
        let kind = self.core.kind;
        if !kind.can_do(&wr.op) {
            return Err(PostError::WrongService { kind });
        }
        if kind == QpKind::XrcInitiator && self.core.peer_srq.is_none() && !wr.op.is_local() {
            return Err(PostError::NoSrqNamed);
        }
        match self.core.state {
            // rule: 10.3.1-sqd-posting
            QpState::Rts | QpState::Sqd => self.service.post_send(&self.core, wr, source),
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
