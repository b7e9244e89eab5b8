//! What a run knows of its hosts, ends and queues.

use super::end::{End, FlowMemory};
use super::memory::Region;
use super::outcome::Outcome;
use super::plan::Plan;
use crate::fabric::{Fabric, HostId};
use crate::oracle::Oracle;
use roce_stack::{Completion, CompletionQueue, Duration, Instant, PdId, Srqn, XrcdId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The words for atomics of each host: half of them count, half are swapped.
pub(super) const WORDS: usize = 8;

/// A run under way.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fabric: Fabric,
    pub(super) oracle: Oracle,
    pub(super) pairs: Vec<Option<PairState>>,
    /// Of each host.
    pub(super) words: Vec<HostState>,
    pub(super) paused: Vec<bool>,
    pub(super) pools: Vec<PoolState>,
    /// All that were ever made, by their numbers.
    pub(super) cqs: Vec<CqState>,
    /// The CQ of each host that some of its ends share.
    pub(super) host_cqs: Vec<Option<Arc<CompletionQueue>>>,
    /// The pool of each host's shared receive queue.
    pub(super) srqs: Vec<Option<usize>>,
    /// The XRC domain of each host.
    pub(super) domains: Vec<Option<Domain>>,
    /// Hosts whose completions are to be looked at.
    pub(super) touched: Vec<HostId>,
    /// Completions that were taken just now.
    pub(super) taken: Vec<Completion>,
    pub(super) outcome: Outcome,
}

/// Two connected ends.
#[derive(Debug)]
pub(super) struct PairState {
    pub(super) ends: [End; 2],
    /// By the side that initiates.
    pub(super) memory: [FlowMemory; 2],
}

/// A host's words, and the protection domain of everything there.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) pd: PdId,
    pub(super) region: Region,
}

/// A CQ; its [`CqId`] is its place in the list of all.
#[derive(Debug)]
pub(super) struct CqState {
    pub(super) host: HostId,
    pub(super) cq: Arc<CompletionQueue>,
    /// The fewest entries that it has had since it was empty.
    pub(super) room: usize,
    /// How long completions wait to be taken.
    pub(super) lazy: Duration,
    /// Its host will take them, at a time to come.
    pub(super) called: bool,
    /// It has overrun.
    pub(super) failed: bool,
    /// And the NIC has said so.
    pub(super) told: bool,
}

/// Receives in one place.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) host: HostId,
    pub(super) queue: Queue,
    pub(super) region: Region,
    pub(super) registered: bool,
    /// Its host was not restarted.
    pub(super) alive: bool,
    /// How long each receive is.
    pub(super) len: usize,
    pub(super) free: Vec<usize>,
    pub(super) used: BTreeMap<u64, usize>,
    pub(super) next: u64,
    /// Never posts more than this.
    pub(super) most: u64,
    pub(super) depth: usize,
    pub(super) ahead: usize,
    pub(super) gap: Duration,
    pub(super) limit: usize,
    pub(super) armed: bool,
    pub(super) refill_at: Instant,
    pub(super) called: bool,
}

/// Where receives are posted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queue {
    Srq(Srqn),
    /// An SRQ of an XRC domain.
    Xrc(Srqn),
    /// The queue of one QP.
    Own(usize, usize),
}

impl Queue {
    /// The SRQ, if it is one.
    pub(super) fn srqn(&self) -> Option<Srqn> {
        match self {
            Self::Srq(srqn) | Self::Xrc(srqn) => Some(*srqn),
            Self::Own(..) => None,
        }
    }
}

/// The XRC domain of a host.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) id: XrcdId,
    /// The pools of its SRQs.
    pub(super) pools: [usize; 2],
    /// Where the receives of all of them complete, so that their order is known.
    pub(super) cq: Arc<CompletionQueue>,
}

/// Who is called, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    /// An end has its turn: twice the pair, plus the side.
    Pump(usize),
    /// A fault of the plan begins or ends.
    Fault(usize),
    /// A mischief of the plan.
    Mischief(usize),
    /// The mischief is over.
    Undo(usize),
    /// A pair is connected.
    Start(usize),
    /// A pool wants receives.
    Refill(usize),
    /// Completions of a CQ are taken.
    Take(usize),
}

impl Token {
    pub(super) fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Pump(number) => (0, number),
            Self::Fault(number) => (1, number),
            Self::Mischief(number) => (2, number),
            Self::Undo(number) => (3, number),
            Self::Start(number) => (4, number),
            Self::Refill(number) => (5, number),
            Self::Take(number) => (6, number),
        };
        kind << 32 | number as u64
    }

    pub(super) fn decode(token: u64) -> Self {
        let number = (token & 0xffff_ffff) as usize;
        match token >> 32 {
            0 => Self::Pump(number),
            1 => Self::Fault(number),
            2 => Self::Mischief(number),
            3 => Self::Undo(number),
            4 => Self::Start(number),
            5 => Self::Refill(number),
            _ => Self::Take(number),
        }
    }
}
