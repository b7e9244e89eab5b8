//! The oracle's events about pools of receives.

use super::pool::Pool;
use super::{Area, Oracle, PostedRecv, Verdict, about, violated};
use roce_stack::Completion;

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
