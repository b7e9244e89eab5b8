//! Receives of shared receive queues, and of services that lose messages. All are as long as the
//! longest message, in slots that are reused.

use super::memory::Region;
use super::plan::{Op, Plan};
use super::state::{PoolSpec, PoolState, Queue, Run, Token};
use crate::connect::header_bytes;
use crate::fabric::HostId;
use crate::oracle::{PostedRecv, Verdict, Violation, about, violated};
use roce_stack::{Duration, Instant, QueueLimits, RecvRequest, SrqAttributes, SrqError, SrqInit};
use std::collections::BTreeMap;

/// Scatter/gather elements of a receive.
const ELEMENTS: usize = 3;

/// Bytes between two receives, which must stay unchanged.
const GAP: usize = 16;

/// The length of the longest receive that a flow needs.
pub(super) fn longest(ops: &[Op]) -> usize {
    let consuming = ops.iter().filter(|op| op.kind.consumes_receive());
    consuming.map(|op| op.len).max().unwrap_or(0)
}

/// The flows whose receives come from a host's SRQ: pair, and sending side.
fn flows_to(plan: &Plan, host: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = (0..plan.pairs.len()).flat_map(|pair| [(pair, 0), (pair, 1)]);
    all.filter(move |(pair, side)| {
        let pair = &plan.pairs[*pair];
        pair.shared[1 - side] && pair.hosts[1 - side] == host
    })
}

impl Run<'_> {
    /// Makes the SRQ of a host, if any end will use it.
    pub(super) fn make_srq(&mut self, host: HostId) -> Result<Option<usize>, Violation> {
        let plan = self.plan;
        let users = flows_to(plan, host.0).count();
        if users == 0 {
            return Ok(None);
        }
        let needs = |(pair, side): (usize, usize)| {
            let pair = &plan.pairs[pair];
            longest(&pair.ops[side]) + header_bytes(pair.connect.kind)
        };
        let srq = plan.srqs[host.0];
        let spec = PoolSpec {
            len: flows_to(plan, host.0).map(needs).max().unwrap_or(0),
            srq,
            users,
            max_posts: u64::MAX,
            first: 0,
        };
        let init = SrqInit {
            pd: self.hosts[host.0].pd,
            size: QueueLimits {
                depth: srq.depth,
                max_sge: ELEMENTS,
            },
        };
        let srqn = self
            .fabric
            .nic(host)
            .create_srq(&init)
            .map_err(about("making an SRQ"))?;
        self.make_pool(host, Queue::Srq(srqn), spec).map(Some)
    }

    pub(super) fn make_pool(
        &mut self,
        host: HostId,
        queue: Queue,
        spec: PoolSpec,
    ) -> Result<usize, Violation> {
        let slots = spec.srq.ahead + spec.users;
        let number = self.pools.len();
        let pd = self.hosts[host.0].pd;
        let len = slots * (spec.len + GAP);
        let region = Region::new(self.fabric.nic(host), pd, 2000 + number, len, false)?;
        let shared = queue.srqn().is_some();
        self.oracle.pool_created(number, region.area(), shared);
        self.pools.push(PoolState {
            host,
            queue,
            region,
            registered: true,
            alive: true,
            spec,
            free: (0..slots).rev().collect(),
            used: BTreeMap::new(),
            next: spec.first,
            armed: false,
            refill_at: Instant::ZERO,
            is_call_scheduled: false,
        });
        Ok(number)
    }

    /// The number of receives that wait for messages.
    pub(super) fn posted_receives(&mut self, pool: usize) -> usize {
        let state = &self.pools[pool];
        let nic = self.fabric.nic(state.host);
        match state.queue {
            Queue::Srq(srqn) | Queue::Xrc(srqn) => {
                nic.query_srq(srqn).map_or(0, |status| status.posted)
            }
            Queue::Own(pair, side) => match &self.pairs[pair] {
                Some(known) => nic
                    .queued(known.ends[side].qpn)
                    .map_or(0, |queued| queued.1),
                None => 0,
            },
        }
    }

    /// Posts receives up to the planned number.
    pub(super) fn refill(&mut self, pool: usize) -> Verdict {
        let mut any = false;
        loop {
            let state = &self.pools[pool];
            let host = state.host;
            let runs = match state.queue {
                Queue::Srq(_) | Queue::Xrc(_) => state.alive,
                Queue::Own(pair, side) => {
                    let known = self.pairs[pair].as_ref();
                    known.is_some_and(|known| known.ends[side].alive)
                }
            };
            if !runs
                || self.paused[host.0]
                || state.next >= state.spec.max_posts
                || state.free.is_empty()
            {
                break;
            }
            let target = state.spec.srq.ahead.min(state.spec.srq.depth);
            let (now, at, called) = (self.fabric.now(), state.refill_at, state.is_call_scheduled);
            // In a QP's own queue a receive occupies its slot until its completion is polled.
            if matches!(state.queue, Queue::Own(..)) && state.used.len() >= state.spec.srq.depth {
                break;
            }
            let posted = self.posted_receives(pool);
            if posted >= target {
                self.rearm_limit(pool, posted)?;
                break;
            }
            if at > now {
                if !called {
                    self.pools[pool].is_call_scheduled = true;
                    self.call_at(at, Token::Refill(pool));
                }
                break;
            }
            self.post_one(pool)?;
            any = true;
        }
        if any {
            // A failed QP completes receives of its own queue at once.
            self.hosts_to_poll.push(self.pools[pool].host);
        }
        Ok(())
    }

    pub(super) fn refill_scheduled(&mut self, pool: usize) -> Verdict {
        self.pools[pool].is_call_scheduled = false;
        self.refill(pool)?;
        let host = self.pools[pool].host;
        self.drive(host);
        Ok(())
    }

    fn post_one(&mut self, pool: usize) -> Verdict {
        let now = self.fabric.now();
        let state = &mut self.pools[pool];
        let Some(slot) = state.free.pop() else {
            return Ok(());
        };
        let (len, wr_id) = (state.spec.len, state.next);
        let at = slot * (len + GAP);
        state.used.insert(wr_id, slot);
        state.next += 1;
        state.refill_at = now + Duration::from_nanos(state.spec.srq.gap_ns);
        let elements = 1 + wr_id as usize % ELEMENTS;
        let key = state.region.key;
        let (host, queue) = (state.host, state.queue);
        let wr = RecvRequest {
            wr_id,
            sges: &match queue {
                Queue::Own(..) => state.region.sges(at, len, 1, key),
                _ => state.region.sges(at, len, elements, key),
            },
        };
        let nic = self.fabric.nic(host);
        let posted = match (queue, &self.pairs) {
            (Queue::Srq(srqn) | Queue::Xrc(srqn), _) => nic.post_srq_recv(srqn, &wr),
            (Queue::Own(pair, side), pairs) => match &pairs[pair] {
                Some(known) => nic.post_recv(now, known.ends[side].qpn, &wr),
                None => Ok(()),
            },
        };
        if let Err(error) = posted {
            return violated(format!("receive {wr_id} of pool {pool} refused: {error}"));
        }
        self.outcome.counts.receives += 1;
        let recv = PostedRecv {
            at: Region::buffer_offset(at),
            len,
        };
        self.oracle.posted_to_pool(pool, wr_id, recv);
        Ok(())
    }

    /// A receive has completed: its slot is free.
    pub(super) fn release_slot(&mut self, pool: usize, wr_id: u64) {
        let state = &mut self.pools[pool];
        state.free.extend(state.used.remove(&wr_id));
    }

    /// Requests the next event, unless it would be raised at once.
    fn rearm_limit(&mut self, pool: usize, posted: usize) -> Verdict {
        let state = &self.pools[pool];
        match (state.queue.srqn(), state.armed) {
            (Some(_), false) if (1..=posted).contains(&state.spec.srq.limit) => {
                self.set_limit(pool, state.spec.srq.limit)
            }
            _ => Ok(()),
        }
    }

    /// Requests an event when fewer than `limit` receives are left.
    pub(super) fn set_limit(&mut self, pool: usize, limit: usize) -> Verdict {
        let state = &mut self.pools[pool];
        let Some(srqn) = state.queue.srqn() else {
            return Ok(());
        };
        let limit = limit.min(state.spec.srq.depth);
        state.armed = limit > 0;
        let attributes = SrqAttributes {
            limit: Some(limit),
            ..SrqAttributes::default()
        };
        let host = state.host;
        self.oracle.limit_armed(pool, limit);
        self.hosts_to_poll.push(host);
        let modified = self.fabric.nic(host).modify_srq(srqn, &attributes);
        modified.map_err(about(format_args!("limit {limit} of pool {pool}")))
    }

    pub(super) fn limit_reached(&mut self, pool: usize) -> Verdict {
        self.pools[pool].armed = false;
        self.oracle.limit_reached(pool)?;
        self.refill(pool)
    }

    /// Resizes an SRQ to `depth` receives. An SRQ that holds more receives refuses.
    pub(super) fn resize(&mut self, pool: usize, depth: usize) -> Verdict {
        let posted = self.posted_receives(pool);
        let state = &mut self.pools[pool];
        let Some(srqn) = state.queue.srqn() else {
            return Ok(());
        };
        let nic = self.fabric.nic(state.host);
        let limit = nic.query_srq(srqn).map_or(0, |status| status.limit);
        let attributes = SrqAttributes {
            depth: Some(depth),
            ..SrqAttributes::default()
        };
        match nic.modify_srq(srqn, &attributes) {
            Ok(()) if posted <= depth && limit <= depth => {
                state.spec.srq.depth = depth;
                self.refill(pool)
            }
            Err(SrqError::TooManyPosted { .. }) if depth < posted => Ok(()),
            Err(SrqError::BadLimit { .. }) if depth < limit => Ok(()),
            other => violated(format!(
                "pool {pool} of {posted} receives, limit {limit}, to {depth}: {other:?}"
            )),
        }
    }

    pub(super) fn deregister_pool(&mut self, pool: usize) -> Verdict {
        let host = self.pools[pool].host;
        self.poll_all(host)?;
        let state = &mut self.pools[pool];
        if !core::mem::replace(&mut state.registered, false) {
            return Ok(());
        }
        if !self.fabric.nic(host).deregister(state.region.key) {
            return violated(format!("the memory of pool {pool} is not there"));
        }
        self.oracle.pool_deregistered(pool)
    }

    /// Closes the pools of a host that restarts.
    pub(super) fn close_pools(&mut self, host: HostId) -> Verdict {
        for pool in 0..self.pools.len() {
            let state = &mut self.pools[pool];
            if state.host == host && state.alive {
                (state.alive, state.registered) = (false, false);
                self.oracle.pool_closed(pool)?;
            }
        }
        Ok(())
    }

    /// Checks at the end of a run that every receive is accounted for.
    pub(super) fn check_pools_idle(&mut self) -> Verdict {
        for pool in 0..self.pools.len() {
            let mut held = 0;
            let mut users = 0;
            for state in self.pairs.iter().flatten() {
                for end in state.ends.iter().filter(|end| end.alive) {
                    if end.pool == Some(pool) {
                        let queued = self.fabric.nic(end.host).queued(end.qpn);
                        held += queued.map_or(0, |queued| queued.1);
                        users += 1;
                    }
                }
            }
            let posted = self.posted_receives(pool);
            let state = &self.pools[pool];
            let receives = match state.queue {
                Queue::Own(..) => (users > 0).then_some((posted, 0)),
                Queue::Srq(_) | Queue::Xrc(_) if !state.alive => None,
                Queue::Xrc(_) => {
                    let held = self.held_by_targets(self.pools[pool].host);
                    self.oracle.may_be_held(pool, held);
                    Some((posted, 0))
                }
                Queue::Srq(srqn) => {
                    let status = self.fabric.nic(state.host).query_srq(srqn);
                    if status.map(|status| status.qps) != Some(users) {
                        return violated(format!("{users} QPs use pool {pool}, not {status:?}"));
                    }
                    Some((posted, held))
                }
            };
            self.oracle.check_pool_idle(pool, receives)?;
        }
        Ok(())
    }

    /// Destroys the SRQs, after all QPs.
    pub(super) fn destroy_pools(&mut self) -> Verdict {
        for pool in 0..self.pools.len() {
            self.deregister_pool(pool)?;
            let state = &self.pools[pool];
            if let (Some(srqn), true) = (state.queue.srqn(), state.alive)
                && let Err(error) = self.fabric.nic(state.host).destroy_srq(srqn)
            {
                return violated(format!("pool {pool} can't be destroyed: {error}"));
            }
        }
        self.destroy_domains()
    }
}
