//! The oracle's events about CQs.

use super::{Oracle, Verdict, violated};
use std::collections::BTreeSet;

/// A QP that uses a CQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqUser {
    /// Its pair.
    pub pair: usize,
    /// Its side.
    pub side: usize,
    /// Its sends complete there.
    pub sends: bool,
    /// Its receives complete there.
    pub receives: bool,
}

impl Oracle {
    /// A CQ with `capacity` entries overran. `users` are its QPs. Its contents have not been
    /// reported yet.
    ///
    /// # Errors
    /// If the CQ has enough entries for all outstanding requests.
    pub fn cq_overran(&mut self, capacity: usize, users: &[CqUser]) -> Verdict {
        let mut requests = 0;
        let mut pools = BTreeSet::new();
        for user in users {
            let CqUser { pair, side, .. } = *user;
            if user.sends {
                requests += self.outstanding_sends(pair, side);
            }
            if user.receives {
                let ends = self.pair(pair).ends;
                match ends.pools[side] {
                    Some(_) => pools.extend(ends.pools_of(side)),
                    None => requests += self.outstanding_recvs(pair, side),
                }
            }
            // Some completions are lost, and the QP fails at the first of them.
            self.mark_may_be_broken(pair, side);
        }
        let pooled = pools.iter().map(|pool| self.outstanding_of_pool(*pool));
        let max_completions = requests + pooled.sum::<usize>();
        if max_completions <= capacity {
            return violated(format!(
                "a CQ of {capacity} entries overran, but {max_completions} requests at most have completed: \
                 {users:?}"
            ));
        }
        Ok(())
    }
}
