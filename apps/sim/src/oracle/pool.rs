//! Receives of a shared receive queue, or of a service that loses messages. Which message a receive
//! gets is known only when the receive completes.

use super::area::{Area, Content};
use super::datagram::{HEADER_BYTES, Network};
use super::request::PostedRecv;
use super::{Oracle, Verdict, Violation, about, violated};
use roce_stack::Completion;
use std::collections::BTreeMap;

/// The receives of one queue.
#[derive(Debug)]
pub(crate) struct Pool {
    area: Area,
    /// Whether many QPs use the pool.
    pub(super) shared: bool,
    posted: BTreeMap<u64, PostedRecv>,
    /// The maximum number of receives that destroyed QPs may have held.
    lost_with_qps: usize,
    /// Whether the pool's memory was deregistered.
    pub(super) deregistered: bool,
    /// The limit of the requested event.
    limit: Option<usize>,
}

impl Pool {
    pub(super) fn new(area: Area, shared: bool) -> Self {
        Self {
            area,
            shared,
            posted: BTreeMap::new(),
            lost_with_qps: 0,
            deregistered: false,
            limit: None,
        }
    }

    /// The number of receives that have not completed.
    pub(super) fn outstanding(&self) -> usize {
        self.posted.len()
    }

    pub(super) fn post(&mut self, wr_id: u64, recv: PostedRecv) {
        self.area
            .begin(wr_id as usize, recv.at, Content::Anything(recv.len));
        self.posted.insert(wr_id, recv);
    }

    /// A receive has completed for a QP whose previous one was `after`.
    pub(super) fn take(&mut self, wr_id: u64, after: Option<u64>) -> Result<PostedRecv, Violation> {
        let first = self.posted.keys().next().copied();
        let Some(recv) = self.posted.remove(&wr_id) else {
            return violated(format!("receive {wr_id} was not posted, or has completed"));
        };
        if !self.shared && first != Some(wr_id) {
            return violated(format!(
                "receive {wr_id} completed, but the oldest is {first:?}"
            ));
        }
        if after.is_some_and(|after| wr_id < after) {
            return violated(format!(
                "receive {wr_id} completed after {after:?}, which was posted later"
            ));
        }
        Ok(recv)
    }

    /// Whether the receive holds these bytes, after `header` bytes.
    pub(super) fn holds(&self, recv: PostedRecv, header: usize, bytes: &[u8]) -> bool {
        let from = recv.at + header;
        let to = from + bytes.len();
        to <= recv.at + recv.len && self.area.actual(from..to) == bytes
    }

    /// Whether the receive begins with the header of a datagram.
    pub(super) fn has_header(&self, recv: PostedRecv, network: &Network) -> bool {
        network.has_header(&self.area.actual(recv.at..recv.at + HEADER_BYTES))
    }

    /// Whether the receive is unchanged after its first `len` bytes.
    pub(super) fn is_unchanged_after(&self, recv: PostedRecv, len: usize) -> bool {
        let rest = recv.at + len.min(recv.len)..recv.at + recv.len;
        self.area.is_frozen() || self.area.actual(rest.clone()) == self.area.image(rest)
    }

    /// The contents of the receive are final.
    pub(super) fn settle(&mut self, wr_id: u64) {
        self.area.settle(wr_id as usize);
    }

    /// A QP that uses the pool was destroyed, and may have held a receive. If the pool is not
    /// shared, all its receives are destroyed, too.
    pub(super) fn user_destroyed(&mut self) -> Verdict {
        if self.shared {
            self.lost_with_qps += 1;
            return Ok(());
        }
        self.freeze()
    }

    pub(super) fn may_be_held(&mut self, receives: usize) {
        self.lost_with_qps += receives;
    }

    /// Nothing accesses the memory from now on, and nothing completes.
    pub(super) fn close(&mut self) -> Verdict {
        self.posted.clear();
        self.limit = None;
        self.freeze()
    }

    /// Nothing accesses the memory from now on.
    pub(super) fn freeze(&mut self) -> Verdict {
        self.area.freeze().map_err(about("receives"))
    }

    /// Requests an event when fewer than `limit` are left; 0 for none.
    pub(super) fn arm(&mut self, limit: usize) {
        self.limit = (limit > 0).then_some(limit);
    }

    /// The event was delivered.
    pub(super) fn limit_reached(&mut self) -> Verdict {
        match self.limit.take() {
            Some(_) => Ok(()),
            None => violated("a limit event without a limit".to_owned()),
        }
    }

    /// Checks an idle network: `posted` receives are in the queue, and QPs hold `held`.
    pub(super) fn check_idle(&self, posted: usize, held: usize) -> Verdict {
        let accounted = posted + held;
        if !(accounted..=accounted + self.lost_with_qps).contains(&self.outstanding()) {
            return violated(format!(
                "{posted} receives are posted and {held} with QPs, but {} have not completed",
                self.outstanding()
            ));
        }
        if self.limit.is_some_and(|limit| posted < limit) {
            return violated(format!(
                "{posted} receives are fewer than the limit, {:?}, but there was no event",
                self.limit
            ));
        }
        self.area.check_all().map_err(about("receives"))
    }
}

impl Oracle {
    /// A pool was created. Its receives are posted in `area`, to the queue of one QP, or to a
    /// `shared` queue.
    pub fn pool_created(&mut self, pool: usize, area: Area, shared: bool) {
        self.pools.insert(pool, Pool::new(area, shared));
    }

    /// A receive was accepted; later ones have higher numbers.
    pub fn posted_to_pool(&mut self, pool: usize, wr_id: u64, recv: PostedRecv) {
        self.clock += 1;
        self.pool(pool).post(wr_id, recv);
    }

    /// The number of receives that have not completed.
    pub fn outstanding_of_pool(&self, pool: usize) -> usize {
        self.pools.get(&pool).map_or(0, Pool::outstanding)
    }

    /// The application requested an event when fewer than `limit` receives are left; 0 disables it.
    pub fn limit_armed(&mut self, pool: usize, limit: usize) {
        self.pool(pool).arm(limit);
    }

    /// The event was delivered.
    ///
    /// # Errors
    /// If it was not requested.
    pub fn limit_reached(&mut self, pool: usize) -> Verdict {
        self.pool(pool).limit_reached()
    }

    /// The memory of the receives was deregistered.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn pool_deregistered(&mut self, pool: usize) -> Verdict {
        for pair in self.pairs.values_mut() {
            pair.pool_deregistered(pool);
        }
        self.pool(pool).deregistered = true;
        self.pool(pool).freeze()
    }

    /// The host of the queue was restarted.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn pool_closed(&mut self, pool: usize) -> Verdict {
        self.pool(pool).close()
    }

    /// The NIC reported that the QP takes no more receives.
    ///
    /// # Errors
    /// If it has no cause to be in the error state, or this was reported before.
    pub fn last_wqe_reached(&mut self, pair: usize, side: usize) -> Verdict {
        let known = self.pair(pair);
        let qp = &mut known.qps[side];
        if !qp.may_be_broken || core::mem::replace(&mut qp.last_wqe, true) {
            return violated(format!(
                "pair {pair} side {side}: last WQE reached, twice or without cause"
            ));
        }
        Ok(())
    }

    /// QPs may hold up to `receives` receives of this pool. The exact number is unknown.
    pub fn may_be_held(&mut self, pool: usize, receives: usize) {
        self.pool(pool).may_be_held(receives);
    }

    /// Whether [`Oracle::last_wqe_reached`] was reported.
    pub fn has_reached_last_wqe(&self, pair: usize, side: usize) -> bool {
        self.pairs[&pair].qps[side].last_wqe
    }

    /// Checks a pool when the network is idle. `receives` has the number of receives in the queue,
    /// and the number that QPs hold; `None` if the queue no longer exists.
    ///
    /// # Errors
    /// If a receive is missing, or memory does not match the model.
    pub fn check_pool_idle(&mut self, pool: usize, receives: Option<(usize, usize)>) -> Verdict {
        let known = self.pool(pool);
        let verdict = match receives {
            Some((posted, held)) => known.check_idle(posted, held),
            None => known.freeze(),
        };
        verdict.map_err(about(format_args!("pool {pool}, idle")))
    }

    /// Whether the next message of `side` certainly finds a receive: nothing is lost, there are
    /// enough receives for all messages in flight, and no other QP uses the pool.
    pub(super) fn receives_suffice(&self, pair: usize, side: usize) -> bool {
        let known = &self.pairs[&pair];
        let pool = known.ends.pools[1 - side];
        let Some(pool) = pool.and_then(|pool| self.pools.get(&pool)) else {
            return false;
        };
        let nothing_is_lost = !known.is_reliable() && !known.causes.lossy;
        nothing_is_lost && !pool.shared && known.unresolved(side) < pool.outstanding()
    }

    pub(super) fn pool_recv_completed(
        &mut self,
        pair: usize,
        side: usize,
        pool: usize,
        done: &Completion,
    ) -> Verdict {
        let Self { pairs, pools, .. } = self;
        match (pairs.get_mut(&pair), pools.get_mut(&pool)) {
            (Some(pair), Some(known)) => pair.pool_recv_completed((pool, known), side, done),
            _ => violated("a receive of a pool that was never made".to_owned()),
        }
    }

    pub(super) fn pool(&mut self, pool: usize) -> &mut Pool {
        match self.pools.get_mut(&pool) {
            Some(known) => known,
            None => panic!("pool {pool} was never made"),
        }
    }
}
