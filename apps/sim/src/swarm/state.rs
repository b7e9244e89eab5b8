//! The state of a run: its hosts, ends and queues.

use super::end::{End, FlowMemory, Manager};
use super::memory::Region;
use super::outcome::Outcome;
use super::plan::{Plan, SrqPlan};
use crate::fabric::{Fabric, HostId};
use crate::oracle::Oracle;
use roce_stack::{
    Completion, CompletionQueue, Duration, Instant, Notify, PdId, QpState, Srqn, XrcdId,
};
use roce_wire::Qpn;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of words for atomics on each host. Half of them are incremented, half are swapped.
pub(super) const WORDS: usize = 8;

/// A run in progress.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fabric: Fabric,
    /// All calls that were ever scheduled. The fabric knows them by their indices.
    pub(super) calls: Vec<Token>,
    pub(super) oracle: Oracle,
    pub(super) pairs: Vec<Option<PairState>>,
    pub(super) hosts: Vec<HostState>,
    pub(super) paused: Vec<bool>,
    pub(super) pools: Vec<PoolState>,
    /// All CQs that were ever made, by number.
    pub(super) cqs: Vec<CqState>,
    /// The CQ of each host that some of its ends share.
    pub(super) host_cqs: Vec<Option<Arc<CompletionQueue>>>,
    /// The pool of each host's shared receive queue.
    pub(super) srqs: Vec<Option<usize>>,
    /// The XRC domain of each host.
    pub(super) domains: Vec<Option<Domain>>,
    /// The connection manager of each host, if it needs one.
    pub(super) managers: Vec<Option<Manager>>,
    /// The QPs of multicast groups.
    pub(super) groups: Groups,
    /// Hosts whose completions need to be polled.
    pub(super) hosts_to_poll: Vec<HostId>,
    /// A buffer for completions, empty between polls. It is kept to save allocations.
    pub(super) completion_buffer: Vec<Completion>,
    pub(super) outcome: Outcome,
}

impl Run<'_> {
    /// All ends by pair and side, also those of pairs that are not connected yet.
    pub(super) fn all_ends(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        (0..self.pairs.len()).flat_map(|pair| [(pair, 0), (pair, 1)])
    }

    /// Whether an end is connected, and of this host.
    pub(super) fn is_of(&self, pair: usize, side: usize, host: HostId) -> bool {
        let state = self.pairs[pair].as_ref();
        state.is_some_and(|state| state.ends[side].host == host)
    }

    /// The state of an end's QP; `None` if it does not exist any more.
    pub(super) fn qp_state(&mut self, pair: usize, side: usize) -> Option<QpState> {
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        self.fabric.nic(host).query_qp(qpn).map(|known| known.0)
    }

    pub(super) fn count_completion(&mut self, done: &Completion) {
        let name = done.status.label();
        *self.outcome.counts.completions.entry(name).or_default() += 1;
    }

    pub(super) fn call_at(&mut self, at: Instant, call: Token) {
        self.fabric.call_at(at, self.calls.len() as u64);
        self.calls.push(call);
    }
}

/// Two connected ends.
#[derive(Debug)]
pub(super) struct PairState {
    pub(super) ends: [End; 2],
    /// Indexed by the initiating side.
    pub(super) memory: [FlowMemory; 2],
}

/// A host's words, and the protection domain of all its objects.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) pd: PdId,
    pub(super) region: Region,
    /// A protection domain without QPs, once it is needed.
    pub(super) other_pd: Option<PdId>,
}

/// A CQ; its [`CqId`] is its index in the list of all.
#[derive(Debug)]
pub(super) struct CqState {
    pub(super) host: HostId,
    pub(super) cq: Arc<CompletionQueue>,
    /// The smallest number of entries that the CQ has had since it was empty.
    pub(super) entries: usize,
    /// How long completions wait until the application polls them.
    pub(super) poll_delay: Duration,
    /// The completions that raise events.
    pub(super) notify: Option<Notify>,
    /// Whether an event was requested and has not come.
    pub(super) armed: bool,
    /// Whether a completion that raises an event was polled since the CQ was armed.
    pub(super) event_due: bool,
    /// Whether such a completion may have been polled.
    pub(super) event_possible: bool,
    /// Whether a call to poll the CQ is scheduled.
    pub(super) is_call_scheduled: bool,
    /// Whether the CQ has overrun.
    pub(super) failed: bool,
    /// Whether the NIC has reported the overrun.
    pub(super) error_reported: bool,
}

/// The receives of one queue.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) host: HostId,
    pub(super) queue: Queue,
    pub(super) region: Region,
    pub(super) registered: bool,
    /// Whether the queue still exists: its host was not restarted.
    pub(super) alive: bool,
    pub(super) spec: PoolSpec,
    pub(super) free: Vec<usize>,
    pub(super) used: BTreeMap<u64, usize>,
    pub(super) next: u64,
    pub(super) armed: bool,
    pub(super) refill_at: Instant,
    pub(super) is_call_scheduled: bool,
}

/// The receives of one queue, as planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolSpec {
    /// The length of each receive.
    pub(super) len: usize,
    /// The queue, with its present depth.
    pub(super) srq: SrqPlan,
    /// The number of QPs that may hold one receive each.
    pub(super) users: usize,
    /// The maximum number of receives to post during the run.
    pub(super) max_posts: u64,
    /// The number of the first receive.
    pub(super) first: u64,
}

/// The queue that receives are posted to.
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
    /// The CQ of all their receives, so that their order is known.
    pub(super) cq: Arc<CompletionQueue>,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    /// Post the requests of an end: twice the pair, plus the side.
    Post(usize),
    /// Start or end a fault of the plan.
    CableFault(usize),
    /// Start a disruption of the plan.
    Disruption(usize),
    /// End a disruption of the plan.
    EndDisruption(usize),
    /// Connect a pair.
    Start(usize),
    /// Post receives to a pool.
    Refill(usize),
    /// Poll a CQ.
    PollCq(usize),
    /// Attach a member to a group.
    JoinGroup(usize),
    /// Detach a member from a group.
    LeaveGroup(usize),
    /// Post a sender's datagrams.
    SendDatagrams(usize),
    /// Post receives of a member.
    PostMemberReceives(usize),
    /// Run the timers of a host's connection manager.
    Manager(usize),
}

/// The QPs of the plan's multicast groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) members: Vec<Member>,
    pub(super) senders: Vec<Sender>,
}

/// A QP, and its CQ.
#[derive(Debug)]
pub(super) struct DatagramQp {
    pub(super) host: HostId,
    pub(super) qpn: Qpn,
    pub(super) cq: Arc<CompletionQueue>,
    pub(super) region: Region,
    /// Whether it is neither destroyed nor lost in a restart.
    pub(super) alive: bool,
}

/// A QP that joins groups.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) qp: DatagramQp,
    /// The length of each receive.
    pub(super) len: usize,
    /// The number of the next receive.
    pub(super) next: u64,
    pub(super) refill_at: Instant,
    /// The memberships that have ended.
    pub(super) left: BTreeSet<usize>,
}

/// A QP that sends to groups.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) qp: DatagramQp,
    /// The offset of each datagram in its region.
    pub(super) at: Vec<usize>,
    pub(super) posted: usize,
    pub(super) completed: u64,
    pub(super) send_at: Instant,
}
