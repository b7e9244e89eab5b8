//! Work requests, and their way into a QP's queues.

use super::QueuePair;
use roce_stack::{Instant, Nic, PostError, RecvWr, SendFlags, SendOp, SendWr, Sge, Srqn};
use roce_wire::Qpn;

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Local memory.
    pub sges: &'a [Sge],
    /// Modifiers.
    pub flags: SendFlags,
}

impl<'a> SendRequest<'a> {
    /// A request that asks for a completion.
    pub fn new(wr_id: u64, op: SendOp, sges: &'a [Sge]) -> Self {
        Self {
            wr_id,
            op,
            sges,
            flags: SendFlags::SIGNALED,
        }
    }

    fn as_wr(&self) -> SendWr<'a> {
        SendWr {
            wr_id: self.wr_id,
            op: self.op,
            sges: self.sges,
            flags: self.flags,
        }
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where a SEND's bytes go.
    pub sges: &'a [Sge],
}

/// Requests that are posted together, see [`QueuePair::post_batch`].
#[derive(Debug)]
pub struct SendBatch<'a> {
    nic: &'a mut Nic,
    now: Instant,
    qpn: Qpn,
}

impl SendBatch<'_> {
    /// As [`QueuePair::post_send`].
    ///
    /// # Errors
    /// See [`PostError`]; this request was not posted then.
    pub fn send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let Self { nic, now, qpn } = self;
        nic.post_send(*now, *qpn, &request.as_wr())
    }

    /// As [`QueuePair::post_inline`].
    ///
    /// # Errors
    /// See [`PostError`]; this request was not posted then.
    pub fn inline(&mut self, request: &SendRequest<'_>, data: &[u8]) -> Result<(), PostError> {
        let Self { nic, now, qpn } = self;
        nic.post_inline(*now, *qpn, &request.as_wr(), data)
    }

    /// As [`QueuePair::post_send_to_srq`].
    ///
    /// # Errors
    /// See [`PostError`]; this request was not posted then.
    pub fn send_to_srq(&mut self, request: &SendRequest<'_>, srq: Srqn) -> Result<(), PostError> {
        let Self { nic, now, qpn } = self;
        nic.post_send_to_srq(*now, *qpn, &request.as_wr(), srq)
    }

    /// Adds a SEND or WRITE of `data`, which is copied, to the receiver's shared receive queue
    /// `srq`, as [`SendBatch::inline`] and [`SendBatch::send_to_srq`] do.
    ///
    /// # Errors
    /// As theirs.
    pub fn inline_to_srq(
        &mut self,
        request: &SendRequest<'_>,
        srq: Srqn,
        data: &[u8],
    ) -> Result<(), PostError> {
        let Self { nic, now, qpn } = self;
        nic.post_inline_to_srq(*now, *qpn, &request.as_wr(), srq, data)
    }
}

impl QueuePair {
    /// Posts a send request, and sends it.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.post_sends(core::slice::from_ref(request))
            .map_err(|(_, error)| error)
    }

    /// Posts several send requests, and sends them together.
    ///
    /// # Errors
    /// The first request that was refused, by its index; those before it were
    /// posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        self.post_batch(|batch| {
            let mut requests = requests.iter().enumerate();
            requests.try_for_each(|(index, request)| {
                batch.send(request).map_err(|error| (index, error))
            })
        })
    }

    /// Posts what `post` hands to the batch, of any kind, and then sends it together.
    /// No other thread posts in between. `post` must not use the device otherwise: its
    /// lock is held.
    pub fn post_batch<R>(&self, post: impl FnOnce(&mut SendBatch<'_>) -> R) -> R {
        let shared = &self.pd.context.inner.shared;
        let (now, mut engine) = shared.lock_to_post();
        let result = post(&mut SendBatch {
            nic: &mut engine.nic,
            now,
            qpn: self.qpn,
        });
        engine.send_posted(now, self.qpn);
        engine.deliver_events();
        result
    }

    /// Posts a SEND or WRITE of `data`, which is copied and needs no region; the
    /// request's own elements are not looked at.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_inline(&self, request: &SendRequest<'_>, data: &[u8]) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let (now, mut engine) = shared.lock_to_post();
        let result = engine
            .nic
            .post_inline(now, self.qpn, &request.as_wr(), data);
        engine.send(now);
        engine.deliver_events();
        result
    }

    /// Posts a send request of an XRC initiator, and sends it to an SRQ of the peer.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_send_to_srq(&self, request: &SendRequest<'_>, srq: Srqn) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let (now, mut engine) = shared.lock_to_post();
        let wr = request.as_wr();
        engine.nic.post_send_to_srq(now, self.qpn, &wr, srq)?;
        engine.send(now);
        engine.deliver_events();
        Ok(())
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_recv(&self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        let now = engine.at(shared.now());
        let wr = RecvWr {
            wr_id: request.wr_id,
            sges: request.sges,
        };
        engine.nic.post_recv(now, self.qpn, &wr)?;
        engine.deliver_events();
        Ok(())
    }
}
