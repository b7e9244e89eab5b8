//! The oracle's events about pools of receives.

use super::pool::Pool;
use super::{Area, Oracle, PostedRecv, Verdict, Violation, violated};
use roce_stack::Completion;

impl Oracle {
    /// Receives will be posted in `area`: for one QP, or for many that share a queue.
    pub fn made_pool(&mut self, pool: usize, area: Area, shared: bool) {
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
    pub fn armed(&mut self, pool: usize, limit: usize) {
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
    pub fn deregistered_pool(&mut self, pool: usize) -> Verdict {
        for pair in self.pairs.values_mut() {
            pair.receives_gone(pool);
        }
        self.pool(pool).gone = true;
        self.pool(pool).freeze()
    }

    /// The queue is gone, with its host.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn closed_pool(&mut self, pool: usize) -> Verdict {
        self.pool(pool).close()
    }

    /// The NIC reported that the QP takes no more receives.
    ///
    /// # Errors
    /// If it has no cause to be in the error state, or this was reported before.
    pub fn last_wqe(&mut self, pair: usize, side: usize) -> Verdict {
        let known = self.pair(pair);
        let qp = &mut known.qps[side];
        if !qp.may_be_broken || core::mem::replace(&mut qp.last_wqe, true) {
            return violated(format!(
                "pair {pair} side {side}: last WQE reached, twice or without cause"
            ));
        }
        Ok(())
    }

    /// QPs may hold up to `receives` receives of this pool; it is unknown how many.
    pub fn may_be_held(&mut self, pool: usize, receives: usize) {
        self.pool(pool).may_be_held(receives);
    }

    /// Whether [`Oracle::last_wqe`] was reported.
    pub fn is_last_wqe_known(&self, pair: usize, side: usize) -> bool {
        self.pairs[&pair].qps[side].last_wqe
    }

    /// Nothing moves any more. `there` has the numbers of receives in the queue and with QPs;
    /// `None` if the queue is gone.
    ///
    /// # Errors
    /// If a receive is missing, or memory does not match the model.
    pub fn pool_at_rest(&mut self, pool: usize, there: Option<(usize, usize)>) -> Verdict {
        let known = self.pool(pool);
        let verdict = match there {
            Some((posted, held)) => known.at_rest(posted, held),
            None => known.freeze(),
        };
        verdict.map_err(|Violation(what)| Violation(format!("pool {pool}, at rest: {what}")))
    }

    /// Whether the next message of `side` will find a receive if nothing is lost: there are enough
    /// for all messages in flight, and no other QP takes any.
    pub(super) fn receives_suffice(&self, pair: usize, side: usize) -> bool {
        let known = &self.pairs[&pair];
        let pool = known.ends.pools[1 - side];
        let Some(pool) = pool.and_then(|pool| self.pools.get(&pool)) else {
            return false;
        };
        let nothing_is_lost = !known.is_reliable() && !known.causes.lossy;
        nothing_is_lost && !pool.shared && known.unresolved(side) < pool.outstanding()
    }

    pub(super) fn arrived(
        &mut self,
        pair: usize,
        side: usize,
        pool: usize,
        done: &Completion,
    ) -> Verdict {
        let Self { pairs, pools, .. } = self;
        match (pairs.get_mut(&pair), pools.get_mut(&pool)) {
            (Some(pair), Some(known)) => pair.arrived((pool, known), side, done),
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
