//! Posts work requests to a QP's queues.

use super::QueuePair;
use crate::memory::{MemoryWindow, MwView};
use crate::runtime::Batch;
use roce_stack::{Instant, Nic, PostError, RecvRequest, SendRequest};
use roce_wire::Qpn;

/// Posts the requests of one batch, see [`QueuePair::post_batch`].
#[derive(Debug)]
pub struct SendBatch<'a> {
    nic: &'a mut Nic,
    now: Instant,
    qpn: Qpn,
    posted: Batch,
}

impl SendBatch<'_> {
    /// Posts one request, like [`QueuePair::post_send`]. The NIC sends it with the batch.
    ///
    /// # Errors
    /// See [`PostError`]. This request is then not posted.
    pub fn send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.nic.post_send(self.now, self.qpn, request)?;
        self.posted.requests += 1;
        self.posted.bytes += request.payload.len();
        Ok(())
    }
}

impl QueuePair {
    /// Posts a send request. The NIC starts to send it at once, or with the requests that follow, if
    /// the program posts one after the other. It waits for them until the program makes another call
    /// that drives the NIC, and for a few milliseconds at most.
    ///
    /// # Errors
    /// See [`PostError`]. Nothing is posted then.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), PostError> {
        self.post_sends(core::slice::from_ref(request))
            .map_err(|(_, error)| error)
    }

    /// Posts several send requests, and then sends them together.
    ///
    /// # Errors
    /// The index of the first request that was refused, and the reason. The requests before it are
    /// posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        self.post_batch(|batch| {
            let mut requests = requests.iter().enumerate();
            requests.try_for_each(|(index, request)| {
                batch.send(request).map_err(|error| (index, error))
            })
        })
    }

    /// Posts the requests that `post` hands to the batch, and then sends them together. No other
    /// thread posts in between. The device's lock is held meanwhile, so `post` must not use the
    /// device except through the batch.
    pub fn post_batch<R>(&self, post: impl FnOnce(&mut SendBatch<'_>) -> R) -> R {
        let shared = &self.pd.context.inner.shared;
        let (now, mut engine) = shared.lock_to_post();
        let mut batch = SendBatch {
            nic: &mut engine.nic,
            now,
            qpn: self.qpn,
            posted: Batch::default(),
        };
        let result = post(&mut batch);
        let posted = batch.posted;
        shared.send_posted(&mut engine, now, self.qpn, posted);
        engine.deliver_events();
        result
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]. Nothing is posted then.
    pub fn post_recv(&self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock();
        let now = engine.nic_time(shared.now());
        engine.nic.post_recv(now, self.qpn, request)?;
        engine.deliver_events();
        Ok(())
    }

    /// Posts the binding of a window, with a new key, like `ibv_bind_mw`; `None` unbinds a window
    /// of type 1. Returns the low 8 bits of the new key, for [`MemoryWindow::rkey`]. The key gives
    /// no access before the binding has completed.
    ///
    /// # Errors
    /// See [`PostError`]. Nothing is posted then.
    pub fn bind_window(
        &self,
        wr_id: u64,
        window: &MemoryWindow,
        view: Option<&MwView>,
    ) -> Result<u8, PostError> {
        let (key, op) = window.rebind(self.context(), view);
        self.post_send(&SendRequest::new(wr_id, op, ()))?;
        Ok(key)
    }
}
