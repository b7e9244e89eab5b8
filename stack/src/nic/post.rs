//! Posts requests, and schedules the QP's turn if it has something to send.

use super::Nic;
use crate::observe::Observer;
use crate::time::Instant;
use crate::wr::{PostError, RecvRequest, SendRequest};
use core::hint::cold_path;
use roce_wire::Qpn;

impl Nic {
    /// Posts a send request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    #[inline]
    pub fn post_send(
        &mut self,
        now: Instant,
        qpn: Qpn,
        request: &SendRequest<'_>,
    ) -> Result<(), PostError> {
        let unknown = PostError::UnknownQp(qpn);
        let handle = self.qps.find(qpn).ok_or(unknown)?;
        let slot = self.qps.at_mut(handle).ok_or(unknown)?;
        let qp = &mut slot.qp;
        if !qp.queues_sends() {
            let posted = self.with_handle(now, handle, |qp, cx| qp.post_send(cx, request));
            return posted.unwrap_or(Err(unknown));
        }
        // This queues the request; nothing else happens to the QP.
        let mut observe = Observer::new(now, &mut slot.trace, &mut self.observed);
        let opcode = request.op.completion_opcode();
        let bytes = match qp.queue_send(&self.shared.memory, request) {
            Ok(bytes) => bytes,
            Err(refused) => {
                cold_path();
                observe.post_refused(opcode);
                return Err(refused);
            }
        };
        observe.posted_send(opcode, request.op.reported_len(bytes));
        if qp.wants_to_send() {
            self.schedule(handle, false);
        }
        Ok(())
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_recv(
        &mut self,
        now: Instant,
        qpn: Qpn,
        wr: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        self.with_qp(now, qpn, |qp, cx| qp.post_recv(cx, wr))
            .unwrap_or(Err(PostError::UnknownQp(qpn)))
    }
}
