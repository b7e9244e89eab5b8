//! Shared receive queues.

use super::XrcDomain;
use crate::completion::CompletionQueue;
use crate::context::Context;
use crate::pd::ProtectionDomain;
use roce_stack::{
    Event, PostError, QueueLimits, RecvRequest, SrqAttributes, SrqError, SrqInit, SrqStatus, Srqn,
};
use std::sync::Arc;

/// The size of a shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct SrqOptions {
    /// The maximum number of outstanding receive requests, 1 to 65,536.
    pub depth: usize,
    /// The maximum number of scatter/gather elements in a receive request, at most 32.
    pub max_sge: usize,
}

impl Default for SrqOptions {
    /// 128 requests of 4 elements.
    fn default() -> Self {
        Self {
            depth: 128,
            max_sge: 4,
        }
    }
}

impl SrqOptions {
    fn init(&self, pd: &ProtectionDomain) -> SrqInit {
        SrqInit {
            pd: pd.id,
            size: QueueLimits {
                depth: self.depth,
                max_sge: self.max_sge,
            },
        }
    }
}

/// A queue of receives that several QPs share. Cheap to clone. The queue is destroyed when the last
/// clone and all QPs that use it are dropped; receives that are still posted then never complete,
/// and events that nobody has taken vanish.
///
/// A QP takes a receive when a message that needs one begins. If the QP fails, that receive
/// completes as flushed, and [`Event::LastWqeReached`](crate::device::Event) says that the QP takes
/// no more receives. The other receives stay.
#[derive(Clone, Debug)]
pub struct SharedReceiveQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pd: ProtectionDomain,
    srqn: Srqn,
    // Keep the domain and the queue's channel alive as long as the SRQ completes to the queue.
    _xrc: Option<(XrcDomain, CompletionQueue)>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut engine = self.pd.context.inner.shared.lock();
        let destroyed = engine.nic.destroy_srq(self.srqn);
        debug_assert_eq!(destroyed, Ok(()), "each QP keeps its SRQ alive");
        engine.withdraw_events(|event| *event == Event::SrqLimit(self.srqn));
    }
}

impl ProtectionDomain {
    /// A shared receive queue, for several QPs.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn create_srq(&self, options: &SrqOptions) -> Result<SharedReceiveQueue, SrqError> {
        let init = options.init(self);
        let srqn = self.context.inner.shared.lock().nic.create_srq(&init)?;
        Ok(SharedReceiveQueue::new(self, srqn, None))
    }
}

impl XrcDomain {
    /// A shared receive queue of this domain. Its receives complete to `cq`, and peers that name
    /// the queue have access to memory of `pd`.
    ///
    /// # Errors
    /// If a size is out of range, or `pd` belongs to another context.
    pub fn create_srq(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        options: &SrqOptions,
    ) -> Result<SharedReceiveQueue, SrqError> {
        if !Arc::ptr_eq(&pd.context.inner, &self.context().inner) {
            return Err(SrqError::UnknownDomain(self.id()));
        }
        let init = options.init(pd);
        let srqn = {
            let mut engine = pd.context.inner.shared.lock();
            let queue = Arc::clone(cq.queue());
            engine.nic.create_xrc_srq(&init, self.id(), queue)?
        };
        let xrc = Some((self.clone(), cq.clone()));
        Ok(SharedReceiveQueue::new(pd, srqn, xrc))
    }
}

impl SharedReceiveQueue {
    fn new(pd: &ProtectionDomain, srqn: Srqn, xrc: Option<(XrcDomain, CompletionQueue)>) -> Self {
        Self {
            inner: Arc::new(Inner {
                pd: pd.clone(),
                srqn,
                _xrc: xrc,
            }),
        }
    }

    /// The number by which events and the requests of XRC peers name the queue.
    pub fn number(&self) -> Srqn {
        self.inner.srqn
    }

    pub(crate) fn belongs_to(&self, context: &Context) -> bool {
        Arc::ptr_eq(&self.inner.pd.context.inner, &context.inner)
    }

    /// Withdraws the queue's events that nobody has taken, which dropping the queue does as well. For a
    /// library whose callers destroy the queue while it must keep this value. No QP uses the queue
    /// any more, so there are no further events.
    pub fn end_events(&self) {
        let mut engine = self.inner.pd.context.inner.shared.lock();
        engine.withdraw_events(|event| *event == Event::SrqLimit(self.inner.srqn));
    }

    /// Posts a receive request, for the QP that first needs one.
    ///
    /// # Errors
    /// See [`PostError`]. Nothing is posted then.
    pub fn post_recv(&self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let mut engine = self.inner.pd.context.inner.shared.lock();
        engine.nic.post_srq_recv(self.inner.srqn, request)
    }

    /// Changes the capacity, or arms one [`Event::SrqLimit`]: it is raised when fewer receives than
    /// the limit are left.
    ///
    /// [`Event::SrqLimit`]: crate::device::Event::SrqLimit
    ///
    /// # Errors
    /// See [`SrqError`]. Nothing has changed then.
    pub fn modify(&self, attributes: &SrqAttributes) -> Result<(), SrqError> {
        let mut engine = self.inner.pd.context.inner.shared.lock();
        engine.nic.modify_srq(self.inner.srqn, attributes)?;
        engine.deliver_events();
        Ok(())
    }

    /// The queue's sizes and limit.
    ///
    /// # Errors
    /// This does not fail, because this value keeps the queue alive.
    pub fn query(&self) -> Result<SrqStatus, SrqError> {
        let engine = self.inner.pd.context.inner.shared.lock();
        let status = engine.nic.query_srq(self.inner.srqn);
        status.ok_or(SrqError::Unknown(self.inner.srqn))
    }
}
