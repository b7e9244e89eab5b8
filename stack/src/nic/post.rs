//! Requests are posted, and QPs that have something to send then get their turn.

use super::Nic;
use crate::time::Instant;
use crate::wr::{PostError, RecvWr, SendWr};
use roce_wire::Qpn;

impl Nic {
    /// Posts a send request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_send(&mut self, now: Instant, qpn: Qpn, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.post(now, qpn, wr, None)
    }

    /// Posts a SEND or WRITE of `data`, which is copied; the request's own elements are
    /// not looked at.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_inline(
        &mut self,
        now: Instant,
        qpn: Qpn,
        wr: &SendWr<'_>,
        data: &[u8],
    ) -> Result<(), PostError> {
        self.post(now, qpn, wr, Some(data))
    }

    /// Posts a send request; if bytes are given, they are what is sent.
    #[inline]
    fn post(
        &mut self,
        now: Instant,
        qpn: Qpn,
        wr: &SendWr<'_>,
        data: Option<&[u8]>,
    ) -> Result<(), PostError> {
        let unknown = PostError::UnknownQp(qpn);
        let handle = self.qps.find(qpn).ok_or(unknown)?;
        let qp = &mut self.qps.at_mut(handle).ok_or(unknown)?.qp;
        if !qp.queues_sends() {
            let posted = self.with_handle(now, handle, |qp, cx| qp.post_send(cx, wr, data));
            return posted.unwrap_or(Err(unknown));
        }
        // It is queued, and nothing else happens to the QP.
        qp.queue_send(&self.memory, wr, data)?;
        if qp.wants_to_send() {
            self.schedule(handle, false);
        }
        Ok(())
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_recv(&mut self, now: Instant, qpn: Qpn, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.with_qp(now, qpn, |qp, cx| qp.post_recv(cx, wr))
            .unwrap_or(Err(PostError::UnknownQp(qpn)))
    }
}
