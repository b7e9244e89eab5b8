//! Shared receive queues (IBTA 1.7, 10.2.9): receives for many QPs in one place.
//!
//! A QP takes a receive from its SRQ when a message that needs one begins, and holds the receive
//! until it completes. If the QP fails, the receive that it holds completes as flushed. The
//! receives in the SRQ stay available to other QPs.

use crate::event::Event;
use crate::hash::KeyMap;
use crate::ids::{Srqn, XrcdId};
use crate::kind::QpKind;
use crate::memory::PdId;
use crate::queue::{MAX_QUEUE_DEPTH, QueueLimits, RecvWqe, WorkQueue};
use crate::recently_freed::RecentlyFreed;
use crate::wr::{MAX_SGE, PostError, RecvRequest, Sge};
use core::fmt;
use std::collections::VecDeque;

mod xrc;

/// The number of SRQs that a NIC can have.
pub const MAX_SRQS: usize = 1 << 16;

/// The parameters of a new SRQ.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// The protection domain that the memory of its receives must belong to. Its QPs may belong to
    /// other protection domains.
    pub pd: PdId,
    /// The number of receives (1 to 65,536), and the number of elements of each (at most 32).
    pub size: QueueLimits,
}

/// The attributes of an SRQ that can be changed; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttributes {
    /// The new number of receives that fit; not fewer than are posted.
    pub depth: Option<usize>,
    /// Requests one [`Event::SrqLimit`], which is raised as soon as fewer receives than this are
    /// posted, perhaps immediately. 0 cancels the request.
    pub limit: Option<usize>,
}

/// The status of an SRQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqStatus {
    /// The number of receives that fit, and the number of elements of each.
    pub size: QueueLimits,
    /// The limit, if its event has not been raised yet; otherwise 0.
    pub limit: usize,
    /// The number of receives that wait for a message.
    pub posted: usize,
    /// The number of QPs that use it.
    pub qps: usize,
}

/// Why an SRQ was not created, changed or destroyed. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SrqError {
    /// No SRQ has this number.
    Unknown(Srqn),
    /// QPs still use it.
    InUse {
        /// The SRQ.
        srq: Srqn,
        /// The number of QPs.
        qps: usize,
    },
    /// The NIC has the maximum number of SRQs.
    TooMany {
        /// The maximum.
        max: usize,
    },
    /// The depth is 0, or larger than a queue can be.
    BadDepth(usize),
    /// More scatter/gather elements than a receive can have.
    BadMaxSge(usize),
    /// The limit is above the depth: the SRQ would always have fewer receives.
    BadLimit {
        /// The requested limit.
        limit: usize,
        /// The number of receives that fit.
        depth: usize,
    },
    /// The QP can't use this SRQ: the SRQ or the QP is of XRC. SRQs of XRC domains are for XRC
    /// targets only, which are created from the domain.
    WrongKind {
        /// The SRQ.
        srq: Srqn,
        /// The kind of the QP that should use it.
        kind: QpKind,
    },
    /// No XRC domain has this ID.
    UnknownDomain(XrcdId),
    /// The XRC domain is in use.
    DomainInUse {
        /// The domain.
        domain: XrcdId,
        /// The number of SRQs and targets that use it.
        users: usize,
    },
    /// More receives are posted than would fit.
    TooManyPosted {
        /// The requested depth.
        depth: usize,
        /// The number of posted receives.
        posted: usize,
    },
}

impl fmt::Display for SrqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(srq) => {
                write!(f, "no shared receive queue of this device has number {srq}")
            }
            Self::InUse { srq, qps } => write!(
                f,
                "shared receive queue {srq} is used by {qps} queue pairs: destroy those first"
            ),
            Self::BadDepth(depth) => write!(
                f,
                "a shared receive queue of {depth} entries: 1 to {MAX_QUEUE_DEPTH} are possible"
            ),
            Self::TooMany { max } => write!(
                f,
                "there are {max} shared receive queues, as many as a device can have: destroy \
                 one that is not needed"
            ),
            Self::BadMaxSge(max) => write!(
                f,
                "{max} scatter/gather elements for each receive: at most {MAX_SGE} are possible"
            ),
            Self::BadLimit { limit, depth } => write!(
                f,
                "a limit of {limit} is above the {depth} entries of the shared receive queue: at \
                 most {depth} is possible"
            ),
            Self::WrongKind { srq, kind } => write!(
                f,
                "a QP of kind {kind} can't use shared receive queue {srq}: those of an XRC \
                 domain are only for its targets, which are created from the domain"
            ),
            Self::UnknownDomain(domain) => {
                write!(f, "no XRC domain of this device has number {domain}")
            }
            Self::DomainInUse { domain, users } => write!(
                f,
                "XRC domain {domain} is used by {users} SRQs and targets: destroy those first"
            ),
            Self::TooManyPosted { depth, posted } => write!(
                f,
                "{posted} receives are posted and don't fit in {depth} entries: make it at \
                 least {posted}, or wait until some are used"
            ),
        }
    }
}

impl fmt::Debug for SrqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SrqError {}

/// A shared receive queue.
#[derive(Debug)]
struct Srq {
    pd: PdId,
    queue: WorkQueue<RecvWqe>,
    /// 0 if no event is requested.
    limit: usize,
    qps: usize,
    xrc: Option<xrc::Xrc>,
}

impl Srq {
    /// Raises the event if the limit is reached and the event was requested.
    // rule: 10.2.9-srq-limit
    fn note_limit(&mut self, srqn: Srqn, events: &mut VecDeque<Event>) {
        if self.queue.len() < self.limit {
            self.limit = 0;
            events.push_back(Event::SrqLimit(srqn));
        }
    }
}

/// All SRQs of a NIC.
#[derive(Debug, Default)]
pub(crate) struct SrqTable {
    srqs: KeyMap<Srq>,
    freed: RecentlyFreed,
    /// The number of SRQs and QPs that use each XRC domain.
    domains: KeyMap<usize>,
    last_domain: u32,
}

impl SrqTable {
    /// Whether an SRQ has this number, or had it a short while ago.
    pub(crate) fn is_taken(&self, number: u32) -> bool {
        self.srqs.contains_key(&number) || self.freed.contains(number)
    }

    pub(crate) fn len(&self) -> usize {
        self.srqs.len()
    }

    /// Adds an SRQ with a number that is free.
    pub(crate) fn create(&mut self, srqn: Srqn, init: &SrqInit) -> Result<(), SrqError> {
        check_depth(init.size.depth)?;
        if init.size.max_sge > MAX_SGE {
            return Err(SrqError::BadMaxSge(init.size.max_sge));
        }
        let srq = Srq {
            pd: init.pd,
            queue: WorkQueue::new(init.size),
            limit: 0,
            qps: 0,
            xrc: None,
        };
        self.srqs.insert(srqn.0, srq);
        Ok(())
    }

    pub(crate) fn modify(
        &mut self,
        srqn: Srqn,
        attributes: &SrqAttributes,
        events: &mut VecDeque<Event>,
    ) -> Result<(), SrqError> {
        let srq = self.get_mut(srqn)?;
        let posted = srq.queue.len();
        let depth = attributes.depth.unwrap_or(srq.queue.limits().depth);
        check_depth(depth)?;
        if depth < posted {
            return Err(SrqError::TooManyPosted { depth, posted });
        }
        // rule: 10.2.9-srq-rearm
        let limit = attributes.limit.unwrap_or(srq.limit);
        if limit > depth {
            return Err(SrqError::BadLimit { limit, depth });
        }
        if depth != srq.queue.limits().depth {
            // rule: 10.2.9-srq-resize
            srq.queue.resize(depth);
        }
        srq.limit = limit;
        srq.note_limit(srqn, events);
        Ok(())
    }

    pub(crate) fn query(&self, srqn: Srqn) -> Option<SrqStatus> {
        self.srqs.get(&srqn.0).map(|srq| SrqStatus {
            size: srq.queue.limits(),
            limit: srq.limit,
            posted: srq.queue.len(),
            qps: srq.qps,
        })
    }

    pub(crate) fn destroy(&mut self, srqn: Srqn) -> Result<(), SrqError> {
        let qps = self.get_mut(srqn)?.qps;
        if qps > 0 {
            return Err(SrqError::InUse { srq: srqn, qps });
        }
        let srq = self.srqs.remove(&srqn.0);
        self.freed.note(srqn.0);
        if let Some(domain) = srq.and_then(|srq| srq.domain()) {
            self.leave(domain);
        }
        Ok(())
    }

    pub(crate) fn post(&mut self, srqn: Srqn, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        let srq = self.srqs.get_mut(&srqn.0);
        let srq = srq.ok_or(PostError::UnknownSrq(srqn))?;
        srq.queue.push(RecvWqe::new(wr), wr.sges)
    }

    /// Counts one more QP that uses the SRQ. Returns the SRQ's protection domain and the maximum
    /// number of elements of its receives.
    pub(crate) fn attach(&mut self, srqn: Srqn, kind: QpKind) -> Result<(PdId, usize), SrqError> {
        let srq = self.get_mut(srqn)?;
        if srq.xrc.is_some() || kind.is_xrc() {
            return Err(SrqError::WrongKind { srq: srqn, kind });
        }
        srq.qps += 1;
        Ok((srq.pd, srq.queue.limits().max_sge))
    }

    /// Counts one QP fewer that uses the SRQ.
    pub(crate) fn detach(&mut self, srqn: Srqn) {
        if let Some(srq) = self.srqs.get_mut(&srqn.0) {
            srq.qps -= 1;
        }
    }

    /// The oldest receive and its elements, if there is one.
    pub(crate) fn front(&self, srqn: Srqn) -> Option<(&RecvWqe, &[Sge])> {
        let queue = &self.srqs.get(&srqn.0)?.queue;
        Some((queue.front()?, queue.sges(0)))
    }

    /// Takes the oldest receive, if there is one, and passes it to `to`.
    pub(crate) fn take(
        &mut self,
        srqn: Srqn,
        events: &mut VecDeque<Event>,
        to: impl FnOnce(RecvWqe, &[Sge]),
    ) {
        let Some(srq) = self.srqs.get_mut(&srqn.0) else {
            return;
        };
        // rule: 10.2.9-srq-order
        let Some(wqe) = srq.queue.front().copied() else {
            return;
        };
        to(wqe, srq.queue.sges(0));
        srq.queue.pop();
        srq.note_limit(srqn, events);
    }

    fn get_mut(&mut self, srqn: Srqn) -> Result<&mut Srq, SrqError> {
        self.srqs.get_mut(&srqn.0).ok_or(SrqError::Unknown(srqn))
    }
}

fn check_depth(depth: usize) -> Result<(), SrqError> {
    if (1..=MAX_QUEUE_DEPTH).contains(&depth) {
        Ok(())
    } else {
        Err(SrqError::BadDepth(depth))
    }
}
