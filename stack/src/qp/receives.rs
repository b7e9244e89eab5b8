//! The source of a QP's receives: its own queue, or an SRQ.

use super::{Core, Cx};
use crate::cq::CompletionQueue;
use crate::ids::{Srqn, XrcdId};
use crate::memory::PdId;
use crate::queue::{EntryGuard, QueueLimits, RecvWqe, WorkQueue};
use crate::srq::SrqTable;
use crate::wr::{MAX_SGE, PostError, RecvRequest, Sge};
use std::sync::Arc;

/// The receives of a QP, the oldest first. If the QP uses an SRQ, they are at most one: that of the
/// message in progress.
#[derive(Debug)]
pub(crate) struct Receives {
    queue: WorkQueue<RecvWqe>,
    source: ReceiveSource,
}

/// The source of receives.
#[derive(Debug)]
enum ReceiveSource {
    /// They are posted to the QP.
    Own,
    /// An SRQ, and the protection domain of its receives.
    Srq { srq: Srqn, pd: PdId },
    /// The SRQ that the present request names, or that the last one named.
    Xrc {
        domain: XrcdId,
        named: Option<SelectedSrq>,
    },
}

/// An SRQ of an XRC domain, with its CQ and its protection domain.
#[derive(Debug)]
struct SelectedSrq {
    srq: Srqn,
    pd: PdId,
    cq: Arc<CompletionQueue>,
}

impl Receives {
    /// A queue of the QP's own.
    pub(crate) fn own(limits: QueueLimits) -> Self {
        Self {
            queue: WorkQueue::new(limits),
            source: ReceiveSource::Own,
        }
    }

    /// Receives from an SRQ of protection domain `pd`, with at most `max_sge` elements each.
    pub(crate) fn shared(srq: Srqn, pd: PdId, max_sge: usize) -> Self {
        Self {
            queue: WorkQueue::new(QueueLimits { depth: 1, max_sge }),
            source: ReceiveSource::Srq { srq, pd },
        }
    }

    /// Receives from whichever SRQ of an XRC domain a request names.
    pub(crate) fn xrc(domain: XrcdId) -> Self {
        Self {
            queue: WorkQueue::new(QueueLimits {
                depth: 1,
                max_sge: MAX_SGE,
            }),
            source: ReceiveSource::Xrc {
                domain,
                named: None,
            },
        }
    }

    /// The SRQ, if it is always the same.
    pub(crate) fn srq(&self) -> Option<Srqn> {
        match self.source {
            ReceiveSource::Srq { srq, .. } => Some(srq),
            ReceiveSource::Own | ReceiveSource::Xrc { .. } => None,
        }
    }

    /// The XRC domain.
    pub(crate) fn domain(&self) -> Option<XrcdId> {
        match self.source {
            ReceiveSource::Xrc { domain, .. } => Some(domain),
            ReceiveSource::Own | ReceiveSource::Srq { .. } => None,
        }
    }

    /// Whether other QPs take receives from the same source.
    pub(crate) fn are_shared(&self) -> bool {
        !matches!(self.source, ReceiveSource::Own)
    }

    fn named(&self) -> Option<&SelectedSrq> {
        match &self.source {
            ReceiveSource::Xrc { named, .. } => named.as_ref(),
            ReceiveSource::Own | ReceiveSource::Srq { .. } => None,
        }
    }

    /// The protection domain whose memory the receives may name.
    pub(crate) fn pd(&self, core: &Core) -> PdId {
        match self.source {
            // rule: 10.2.9-srq-pd
            ReceiveSource::Srq { pd, .. } => pd,
            ReceiveSource::Own | ReceiveSource::Xrc { .. } => self.remote_pd(core),
        }
    }

    /// The protection domain whose memory the peer may access.
    // rule: A14-pd
    pub(crate) fn remote_pd(&self, core: &Core) -> PdId {
        self.named().map_or(core.pd, |named| named.pd)
    }

    /// The CQ of the receives.
    // rule: A14-cq
    pub(crate) fn cq<'a>(&'a self, core: &'a Core) -> &'a Arc<CompletionQueue> {
        self.named().map_or(&core.recv_cq, |named| &named.cq)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Checks a request without posting it.
    pub(crate) fn check(&self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        match self.srq() {
            // rule: 10.2.9-srq-no-own
            Some(srq) => Err(PostError::UsesSrq(srq)),
            None => self.queue.check_room(wr.sges.len()),
        }
    }

    /// Appends a request.
    pub(crate) fn post(&mut self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        self.check(wr)?;
        self.queue.push(RecvWqe::new(wr), wr.sges)
    }

    /// Selects the SRQ that an XRC request names. Returns false if there is no such SRQ in the
    /// domain, or if the request continues a message (`continues_message`) that named another SRQ.
    // rule: A14-any-srq, A14-srq-unknown
    pub(crate) fn select_srq(&mut self, cx: &Cx<'_>, srq: Srqn, continues_message: bool) -> bool {
        let ReceiveSource::Xrc { domain, named } = &mut self.source else {
            return true;
        };
        let Some((pd, cq)) = cx.nic.srqs.of_domain(srq, *domain) else {
            return false;
        };
        let same = named
            .as_ref()
            .is_some_and(|named| named.srq == srq && named.pd == pd && Arc::ptr_eq(&named.cq, cq));
        if !same && !continues_message {
            let cq = Arc::clone(cq);
            *named = Some(SelectedSrq { srq, pd, cq });
        }
        same || !continues_message
    }

    /// The receive for the arriving message: the one that the queue holds, or else the oldest of
    /// the SRQ, which stays there. Its elements follow.
    pub(crate) fn peek<'a>(&'a self, srqs: &'a SrqTable) -> Option<(&'a RecvWqe, &'a [Sge])> {
        match self.queue.front() {
            Some(wqe) => Some((wqe, self.queue.sges(0))),
            None => srqs.front(self.selected()?),
        }
    }

    /// The SRQ that the next receive comes from.
    fn selected(&self) -> Option<Srqn> {
        match &self.source {
            ReceiveSource::Own => None,
            ReceiveSource::Srq { srq, .. } => Some(*srq),
            ReceiveSource::Xrc { named, .. } => named.as_ref().map(|named| named.srq),
        }
    }

    /// Takes a receive from the SRQ for the arriving message, unless the queue already holds one.
    /// Returns whether the queue holds a receive.
    pub(crate) fn ensure_receive(&mut self, cx: &mut Cx<'_>) -> bool {
        let srq = self.selected();
        let queue = &mut self.queue;
        if let Some(srq) = srq
            && queue.is_empty()
        {
            // rule: 10.2.9-srq-rnr
            cx.nic.srqs.take(srq, &mut cx.nic.events, |wqe, sges| {
                let taken = queue.push(wqe, sges);
                debug_assert!(taken.is_ok(), "the queue was made for the SRQ's receives");
            });
        }
        !queue.is_empty()
    }

    /// The oldest receive.
    pub(crate) fn front(&self) -> Option<&RecvWqe> {
        self.queue.front()
    }

    /// The elements of the oldest receive.
    pub(crate) fn sges(&self) -> &[Sge] {
        self.queue.sges(0)
    }

    /// The guard of the queue entry of the receive that completes now. `None` with an SRQ, whose
    /// entry is free as soon as a QP takes the receive.
    pub(crate) fn entry_guard(&self) -> Option<EntryGuard> {
        (!self.are_shared()).then(|| self.queue.entry_guard())
    }

    /// Removes the oldest receive.
    pub(crate) fn pop(&mut self) -> Option<RecvWqe> {
        self.queue.pop()
    }

    // rule: 10.2.9-srq-not-flushed
    /// Removes all receives that the QP holds. Those that are still in the SRQ stay there.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
