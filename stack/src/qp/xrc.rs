//! What an XRC QP does besides RC (IBTA 1.7, annex A14).

use super::{Cx, Qp, QpKind};
use crate::srq::{Srqn, XrcdId};
use crate::wr::{PostError, SendWr};

impl Qp {
    /// The XRC domain that SRQs are named in.
    pub(crate) fn domain(&self) -> Option<XrcdId> {
        self.service.domain()
    }

    /// Adds a request for an SRQ of the peer to the send queue; if bytes are given, they are what
    /// is sent.
    pub(crate) fn post_send_to_srq(
        &mut self,
        cx: &mut Cx<'_>,
        wr: &SendWr<'_>,
        srq: Srqn,
        inline: Option<&[u8]>,
    ) -> Result<(), PostError> {
        let kind = self.core.kind;
        if kind != QpKind::XrcInitiator {
            return Err(PostError::WrongService { kind });
        }
        self.core.peer_srq = Some(srq);
        let posted = self.post_send(cx, wr, inline);
        self.core.peer_srq = None;
        posted
    }
}
