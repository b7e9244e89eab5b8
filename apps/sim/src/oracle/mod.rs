//! A model of verbs semantics, independent of the implementation.
//!
//! A test that drives NICs reports the posted requests to the oracle ([`Oracle::posted_send`],
//! [`Oracle::posted_recv`]), the changes of QPs and regions, and every completion. The oracle
//! returns a [`Violation`] as soon as an event breaks a promise:
//!
//! - Each work request completes exactly once, in order, with a status that has a cause.
//! - Receives match the peer's requests in order, with the right length, opcode and
//!   immediate data.
//! - Every byte of every [`Area`] has its old value, or a value that an executed request wrote, or
//!   one that a possibly executed request may have written. This includes canaries: the bytes of an
//!   area outside the registered region, which no request may access.
//! - A READ returns bytes that its range held at some time between its posting and its completion.
//!   A fenced request starts only after the READs posted before it are done, so such a READ does
//!   not return bytes that only the fenced request or later ones wrote.
//! - Atomics were executed in some order, each at most once ([`Words`]).
//!
//! The rules are those of the IBTA specification 1.7, chapters 9 to 11.

mod area;
mod arrive;
mod complete;
mod cqs;
mod datagram;
mod flow;
mod judge;
mod multicast;
mod pair;
mod pool;
mod rates;
mod request;
mod reregister;
mod revoke;
mod words;

#[cfg(test)]
mod tests;

pub use area::{Area, Bytes};
pub use cqs::CqUser;
pub use datagram::{HEADER_BYTES, Network};
pub use flow::{INVALIDATION_REFUSED, KeyState};
pub use multicast::GroupDatagram;
pub use pair::{Causes, Ends};
pub use rates::{CongestionCounts, CongestionLimits};
pub use request::{Effect, PostedRecv, PostedSend};
pub use reregister::Reregistration;
pub use words::{WordOp, Words};

use flow::Flow;
use pair::{Pair, QpModel};
use pool::Pool;
use roce_stack::{Completion, QpKind, WcOpcode};
use std::collections::BTreeMap;

/// The description of a broken promise.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// `Ok`, or the violation.
pub type Verdict = Result<(), Violation>;

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::fmt::Debug for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violation {}

/// Turns an error about `what` into a violation.
pub(crate) fn about<E: core::fmt::Display>(
    what: impl core::fmt::Display,
) -> impl FnOnce(E) -> Violation {
    move |error| Violation(format!("{what}: {error}"))
}

/// A violation with this description.
pub(crate) fn violated<T>(what: String) -> Result<T, Violation> {
    Err(Violation(what))
}

/// The memory that a flow works on. A flow is the requests of one QP of a pair to its peer.
#[derive(Debug)]
pub struct FlowAreas {
    /// The initiator's: sources of SEND and WRITE, destinations of READ and atomics.
    pub out: Area,
    /// The responder's, for WRITE and READ.
    pub target: Area,
    /// The responder's, for receives.
    pub inbox: Area,
}

/// Names one of a flow's areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaName {
    /// See [`FlowAreas::out`].
    Out,
    /// See [`FlowAreas::target`].
    Target,
    /// See [`FlowAreas::inbox`].
    Inbox,
}

/// Everything that was reported so far. In the methods, `pair` and `side` (0 or 1) name a QP, and
/// `pool` names a pool: the receives of an SRQ, or those of a QP whose service loses messages.
#[derive(Debug, Default)]
pub struct Oracle {
    pairs: BTreeMap<usize, Pair>,
    pools: BTreeMap<usize, Pool>,
    multicast: multicast::Multicast,
    /// The words for atomics, for each host.
    pub words: Vec<Words>,
    /// Counts events, as a clock.
    clock: u64,
}

impl Oracle {
    /// An oracle without any objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Two QPs are connected, as pair number `pair`.
    pub fn connected(&mut self, pair: usize, ends: Ends, causes: Causes, areas: [FlowAreas; 2]) {
        let reliable = !matches!(ends.kind, QpKind::Uc | QpKind::Ud);
        let mut known = Pair {
            causes,
            ends,
            qps: [QpModel::default(); 2],
            flows: areas.map(|areas| Flow::new(areas, reliable)),
            buckets: [None; 2],
            cnps: Default::default(),
        };
        for pool in ends.pools.into_iter().chain([ends.second_pool]).flatten() {
            if self.pool(pool).deregistered {
                known.pool_deregistered(pool);
            }
        }
        self.pairs.insert(pair, known);
    }

    /// The application writes `bytes` into the flow's `out`, from offset `at` on: the data of its
    /// next request, for example.
    pub fn write_out(&mut self, pair: usize, side: usize, at: usize, bytes: &[u8]) {
        self.pair(pair).flows[side].areas.out.write(at, bytes);
    }

    fn pair(&mut self, pair: usize) -> &mut Pair {
        match self.pairs.get_mut(&pair) {
            Some(known) => known,
            None => panic!("pair {pair} was never connected"),
        }
    }

    /// A send request was accepted.
    pub fn posted_send(&mut self, pair: usize, side: usize, send: PostedSend) {
        self.clock += 1;
        if let Effect::Word { host, word, op } = send.effect
            && (!send.fails || send.fails_locally)
        {
            let id = (pair, side, self.pair(pair).flows[side].posted());
            self.words[host].posted(word, id, op, self.clock);
        }
        let due = !send.fails && send.is_distinguishable() && self.receives_suffice(pair, side);
        let known = self.pair(pair);
        // The peer's QP may fail for three reasons: it must refuse the request; the request
        // invalidates a key without a fence, while an earlier READ still uses the key; or the
        // request's key is being bound or revoked, so the peer may have to refuse the request.
        let unfenced = send.invalidates.is_some() && !send.fence;
        let id = known.flows[side].posted();
        known.flows[side].post_send(send, due);
        let send = &known.flows[side].sends[id];
        let refused = send.fails && !send.fails_locally && known.is_reliable();
        let is_uncertain = known.flows[side].is_uncertain(id);
        known.qps[1 - side].may_be_broken |= refused || unfenced || is_uncertain;
        known.key_request_posted(side, id);
    }

    /// A receive request was accepted.
    pub fn posted_recv(&mut self, pair: usize, side: usize, recv: PostedRecv) {
        self.clock += 1;
        self.pair(pair).flows[1 - side].post_recv(recv);
    }

    /// The number of the QP's send requests that may still be in its queue.
    pub fn outstanding_sends(&self, pair: usize, side: usize) -> usize {
        self.pairs[&pair].flows[side].outstanding()
    }

    /// The number of the QP's receives that have not completed.
    pub fn outstanding_recvs(&self, pair: usize, side: usize) -> usize {
        self.pairs[&pair].flows[1 - side].outstanding_recvs()
    }

    /// Reports a completion of the QP.
    ///
    /// # Errors
    /// If the completion breaks a promise.
    pub fn completed(&mut self, pair: usize, side: usize, done: &Completion) -> Verdict {
        let pool = self.pair(pair).ends.pools[side];
        self.completed_in_pool(pair, side, pool, done)
    }

    /// Reports a completion of the QP. For a receive, `pool` is where it was taken from; `None` if
    /// the QP has no pool.
    ///
    /// # Errors
    /// If the completion breaks a promise.
    pub fn completed_in_pool(
        &mut self,
        pair: usize,
        side: usize,
        pool: Option<usize>,
        done: &Completion,
    ) -> Verdict {
        self.clock += 1;
        let receives = matches!(done.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
        let known = self.pair(pair);
        let fetched = match (receives, pool) {
            (true, Some(pool)) => self
                .pool_recv_completed(pair, side, pool, done)
                .map(|()| Vec::new()),
            (true, None) => known.recv_completed(side, done).map(|()| Vec::new()),
            (false, _) => known.send_completed(side, done),
        };
        let checked = fetched.and_then(|fetched| {
            for (index, host, word, old) in fetched {
                self.words[host].completed(word, (pair, side, index), old, self.clock)?;
            }
            Ok(())
        });
        checked.map_err(|Violation(what)| {
            let what = format!("pair {pair} side {side}: {what} ({done:?})");
            Violation(what)
        })
    }

    /// The application did something that may put the QP into the error state.
    pub fn mark_may_be_broken(&mut self, pair: usize, side: usize) {
        self.pair(pair).qps[side].may_be_broken = true;
    }

    /// Whether the QP may be in the error state.
    pub fn may_be_broken(&self, pair: usize, side: usize) -> bool {
        self.pairs[&pair].qps[side].may_be_broken
    }

    /// The NIC reported that the send queue has drained (`drained` is true), or the QP has left SQD
    /// (`drained` is false).
    pub fn drained(&mut self, pair: usize, side: usize, drained: bool) {
        self.pair(pair).qps[side].drained = drained;
    }

    /// The QP was destroyed, after its completions were polled.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn destroyed(&mut self, pair: usize, side: usize) -> Verdict {
        let known = self.pair(pair);
        known.qps[side].destroyed = true;
        // This QP no longer accesses memory.
        known.flows[side].abandon();
        known.flows[side].freeze(AreaName::Out)?;
        known.flows[1 - side].freeze(AreaName::Target)?;
        known.flows[1 - side].freeze(AreaName::Inbox)?;
        let pools: Vec<usize> = known.ends.pools_of(side).collect();
        pools
            .into_iter()
            .try_for_each(|pool| self.pool(pool).user_destroyed())
    }

    /// A region was deregistered: nothing accesses it from now on. `side` is that of the flow's
    /// initiator.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn deregistered(&mut self, pair: usize, side: usize, area: AreaName) -> Verdict {
        let known = self.pair(pair);
        let broken = match area {
            AreaName::Out => side,
            AreaName::Target | AreaName::Inbox => 1 - side,
        };
        // Without acknowledgements, only a faulty receive breaks a QP.
        let breaks = known.is_reliable() || area == AreaName::Inbox;
        known.qps[broken].may_be_broken |= breaks;
        known.flows[side].mark_deregistered(area);
        known.flows[side].freeze(area)
    }

    /// Checks that everything is finished when the network is idle. `queued`, given a pair and a
    /// side, returns the numbers of sends and receives that the QP still holds; `None` if the QP no
    /// longer exists.
    ///
    /// # Errors
    /// If a completion is missing, or the contents of memory break a promise.
    pub fn check_idle(
        &mut self,
        queued: impl Fn(usize, usize) -> Option<(usize, usize)>,
    ) -> Verdict {
        for (&number, pair) in &mut self.pairs {
            for side in [0, 1] {
                pair.check_idle(side, queued(number, side))
                    .map_err(about(format_args!("pair {number} side {side}, idle")))?;
            }
        }
        for (host, words) in self.words.iter().enumerate() {
            words.check().map_err(about(format_args!("host {host}")))?;
        }
        Ok(())
    }
}
