//! Where a QP's receives come from: a queue of its own, or one that it shares.

use super::queue::{QueueLimits, WorkQueue};
use super::{Core, Cx};
use crate::memory::PdId;
use crate::srq::Srqn;
use crate::wr::{PostError, RecvWr, Sge};

/// A posted receive request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    pub(crate) len: u64,
}

impl RecvWqe {
    pub(crate) fn new(wr: &RecvWr<'_>) -> Self {
        Self {
            wr_id: wr.wr_id,
            len: super::sgl::total_len(wr.sges),
        }
    }
}

/// The receives of a QP, the oldest first. With an SRQ it holds at most one: that of
/// the message that is arriving.
#[derive(Debug)]
pub(crate) struct Receives {
    queue: WorkQueue<RecvWqe>,
    shared: Option<Shared>,
}

/// An SRQ, and the domain that the memory of its receives belongs to.
#[derive(Clone, Copy, Debug)]
struct Shared {
    srq: Srqn,
    pd: PdId,
}

impl Receives {
    /// A queue of the QP's own.
    pub(crate) fn own(limits: QueueLimits) -> Self {
        Self {
            queue: WorkQueue::new(limits),
            shared: None,
        }
    }

    /// Receives from an SRQ of domain `pd`, of at most `max_sge` elements each.
    pub(crate) fn shared(srq: Srqn, pd: PdId, max_sge: usize) -> Self {
        Self {
            queue: WorkQueue::new(QueueLimits { depth: 1, max_sge }),
            shared: Some(Shared { srq, pd }),
        }
    }

    /// The SRQ, if there is one.
    pub(crate) fn srq(&self) -> Option<Srqn> {
        self.shared.map(|shared| shared.srq)
    }

    /// The domain whose memory the receives may name.
    pub(crate) fn pd(&self, core: &Core) -> PdId {
        self.shared.map_or(core.pd, |shared| shared.pd)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Checks a request without posting it.
    pub(crate) fn check(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        match self.srq() {
            Some(srq) => Err(PostError::UsesSrq(srq)),
            None => self.queue.check_room(wr.sges.len()),
        }
    }

    /// Appends a request.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.check(wr)?;
        self.queue.push(RecvWqe::new(wr), wr.sges)
    }

    /// Sees to it that there is a receive for the message that arrives, if there can
    /// be one: takes it from the SRQ.
    pub(crate) fn ready(&mut self, cx: &mut Cx<'_>) -> bool {
        let Self { queue, shared } = self;
        if let Some(shared) = shared
            && queue.is_empty()
        {
            cx.srqs.take(shared.srq, cx.events, |wqe, sges| {
                let taken = queue.push(wqe, sges);
                debug_assert!(taken.is_ok(), "the queue was made for the SRQ's receives");
            });
        }
        !queue.is_empty()
    }

    /// The oldest.
    pub(crate) fn front(&self) -> Option<&RecvWqe> {
        self.queue.front()
    }

    /// The elements of the oldest.
    pub(crate) fn sges(&self) -> &[Sge] {
        self.queue.sges(0)
    }

    /// Removes the oldest.
    pub(crate) fn pop(&mut self) -> Option<RecvWqe> {
        self.queue.pop()
    }

    /// Removes all, those of the SRQ excepted.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
