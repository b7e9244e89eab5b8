//! Shared receive queues (IBTA 1.7, 10.2.9): receives for many QPs in one place.
//!
//! A QP takes a receive from its SRQ when a message begins that needs one, and holds
//! it until it completes. What a QP holds is its own: if the QP fails, that receive
//! completes as flushed, and the others wait for other QPs.

use crate::event::Event;
use crate::hash::KeyMap;
use crate::ids::{Srqn, XrcdId};
use crate::kind::QpKind;
use crate::memory::PdId;
use crate::queue::{MAX_QUEUE_DEPTH, QueueLimits, RecvWqe, WorkQueue};
use crate::wr::{MAX_SGE, PostError, RecvRequest, Sge};
use core::fmt;
use std::collections::VecDeque;

mod xrc;

/// How many SRQs a NIC has room for.
pub const MAX_SRQS: usize = 1 << 16;

/// What an SRQ is made with.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// The domain that the memory of its receives must belong to. The QPs that use it
    /// may be of others.
    pub pd: PdId,
    /// How many receives fit (1 to 65,536), of how many elements each (at most 32).
    pub size: QueueLimits,
}

/// What of an SRQ can be changed: `None` leaves as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttributes {
    /// How many receives fit from now on; not fewer than there are.
    pub depth: Option<usize>,
    /// Asks for one [`Event::SrqLimit`] when there are fewer receives than this, at
    /// once if there are already; 0 asks for none.
    pub limit: Option<usize>,
}

/// How an SRQ is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqStatus {
    /// How many receives fit, of how many elements each.
    pub size: QueueLimits,
    /// The limit, if its event is still to come; otherwise 0.
    pub limit: usize,
    /// How many receives wait for a message.
    pub posted: usize,
    /// How many QPs use it.
    pub qps: usize,
}

/// Why an SRQ was not made, changed or destroyed; all is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqError {
    /// No SRQ has this number.
    Unknown(Srqn),
    /// QPs still use it.
    InUse {
        /// The SRQ.
        srq: Srqn,
        /// How many.
        qps: usize,
    },
    /// The NIC has as many as it has room for.
    TooMany {
        /// How many.
        most: usize,
    },
    /// A depth of 0 or beyond what a queue can have.
    BadDepth(usize),
    /// More scatter/gather elements than a receive can have.
    BadMaxSge(usize),
    /// A limit above the depth would be reached for ever.
    BadLimit {
        /// What was asked for.
        limit: usize,
        /// How many receives fit.
        depth: usize,
    },
    /// An SRQ of XRC is for XRC targets alone, which take from no other.
    WrongKind {
        /// The SRQ.
        srq: Srqn,
        /// The kind of the QP that should use it.
        kind: QpKind,
    },
    /// No XRC domain has this name.
    UnknownDomain(XrcdId),
    /// The XRC domain is in use.
    DomainInUse {
        /// The domain.
        domain: XrcdId,
        /// How many SRQs and targets use it.
        users: usize,
    },
    /// More receives are posted than would fit.
    TooManyPosted {
        /// What was asked for.
        depth: usize,
        /// How many there are.
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
            Self::TooMany { most } => write!(
                f,
                "there are {most} shared receive queues, as many as a device can have: destroy \
                 one that is not needed"
            ),
            Self::BadMaxSge(max) => write!(
                f,
                "{max} scatter/gather elements for each receive: at most {MAX_SGE} are possible"
            ),
            Self::BadLimit { limit, depth } => write!(
                f,
                "a limit of {limit} for a shared receive queue of {depth} entries: at most \
                 {depth} can be waited for"
            ),
            Self::WrongKind { srq, kind } => write!(
                f,
                "a QP of kind {kind} can't use shared receive queue {srq}: those of an XRC \
                 domain are for its targets, which are made from the domain alone"
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

impl std::error::Error for SrqError {}

/// A shared receive queue.
#[derive(Debug)]
struct Srq {
    pd: PdId,
    queue: WorkQueue<RecvWqe>,
    /// 0 if nobody waits for it.
    limit: usize,
    qps: usize,
    xrc: Option<xrc::Xrc>,
}

impl Srq {
    /// Tells that the limit is reached, if somebody waits for that.
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
    /// How many SRQs and QPs use each XRC domain.
    domains: KeyMap<usize>,
    last_domain: u32,
}

impl SrqTable {
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.srqs.contains_key(&number)
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

    /// One more QP uses the SRQ. Gives its domain and how many elements its receives
    /// have.
    pub(crate) fn attach(&mut self, srqn: Srqn, kind: QpKind) -> Result<(PdId, usize), SrqError> {
        let srq = self.get_mut(srqn)?;
        if srq.xrc.is_some() || kind.is_xrc() {
            return Err(SrqError::WrongKind { srq: srqn, kind });
        }
        srq.qps += 1;
        Ok((srq.pd, srq.queue.limits().max_sge))
    }

    /// One QP fewer uses the SRQ.
    pub(crate) fn detach(&mut self, srqn: Srqn) {
        if let Some(srq) = self.srqs.get_mut(&srqn.0) {
            srq.qps -= 1;
        }
    }

    /// Takes the oldest receive, if there is one, and hands it to `to`.
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
