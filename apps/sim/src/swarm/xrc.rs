//! XRC: the domain of each host, its shared receive queues, and their completions.

use super::completions::is_receive;
use super::plan::{Op, RequestFault};
use super::pools::longest;
use super::state::{Domain, PoolSpec, Queue, Run};
use crate::fabric::HostId;
use crate::oracle::{Verdict, Violation, about, violated};
use roce_stack::{Completion, QpKind, QueueLimits, SrqInit, Srqn, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

/// The bit position of the SRQ's index within a receive's number.
const SRQ_INDEX_SHIFT: u32 = 48;

impl Run<'_> {
    /// Makes the XRC domain of a host, if any end will use it.
    pub(super) fn make_domain(&mut self, host: HostId) -> Result<Option<Domain>, Violation> {
        let plan = self.plan;
        let to_here =
            |pair: &&super::plan::PairPlan| pair.connect.kind.is_xrc() && pair.hosts[1] == host.0;
        let flows: Vec<_> = plan.pairs.iter().filter(to_here).collect();
        let Some(srqs) = plan.xrc_srqs.get(host.0).filter(|_| !flows.is_empty()) else {
            return Ok(None);
        };
        let id = self.fabric.nic(host).create_xrcd();
        let messages = flows.iter().map(|pair| pair.ops[0].len()).sum::<usize>();
        let entries = 2 * (messages + 128 + flows.len());
        let cq = self.make_cq(host, plan.xrc_cq, entries);
        let lengths = flows.iter().map(|pair| longest(&pair.ops[0]));
        let mut pools = [0; 2];
        for (number, srq) in srqs.iter().enumerate() {
            let init = SrqInit {
                pd: self.hosts[host.0].pd,
                size: QueueLimits {
                    depth: srq.depth,
                    max_sge: 3,
                },
            };
            let made = self
                .fabric
                .nic(host)
                .create_xrc_srq(&init, id, Arc::clone(&cq));
            let srqn = made.map_err(about("making an XRC SRQ"))?;
            let spec = PoolSpec {
                len: lengths.clone().max().unwrap_or(0),
                srq: *srq,
                users: flows.len(),
                max_posts: u64::MAX,
                first: (number as u64) << SRQ_INDEX_SHIFT,
            };
            pools[number] = self.make_pool(host, Queue::Xrc(srqn), spec)?;
        }
        Ok(Some(Domain { id, pools, cq }))
    }

    /// The SRQ that a request names, and its pool.
    pub(super) fn named_srq(&self, pair: usize, op: &Op) -> Option<(Srqn, usize)> {
        let plan = &self.plan.pairs[pair];
        if !plan.connect.kind.is_xrc() {
            return None;
        }
        let domain = self.domains[plan.hosts[1]].as_ref()?;
        let pool = domain.pools[op.srq % 2];
        let srqn = self.pools[pool].queue.srqn()?;
        let unknown_srqn = Srqn::from(Qpn::from_bits(srqn.get() ^ 0x55_5555));
        match op.fault {
            Some(RequestFault::Srq) => Some((unknown_srqn, pool)),
            _ => Some((srqn, pool)),
        }
    }

    /// Polls the completions of a host's XRC SRQs. Returns whether there were any.
    pub(super) fn poll_srqs(&mut self, host: HostId) -> Result<bool, Violation> {
        let Some(Domain { cq, pools, .. }) = self.domains[host.0].clone() else {
            return Ok(false);
        };
        let mut completions = Vec::new();
        self.drain_cq(&cq, &mut completions)?;
        for done in &completions {
            let pool = pools[(done.wr_id >> SRQ_INDEX_SHIFT) as usize % 2];
            self.xrc_received(host, pool, done)?;
        }
        self.destroy_users_of_overrun(cq.id())?;
        Ok(!completions.is_empty())
    }

    fn xrc_received(&mut self, host: HostId, pool: usize, done: &Completion) -> Verdict {
        let end = self.end_of(host, done.qpn);
        let Some((pair, side)) = end.filter(|_| is_receive(done.opcode)) else {
            return violated(format!("pool {pool}: no receive of any QP: {done:?}"));
        };
        if !matches!(
            done.status,
            WcStatus::Success | WcStatus::WorkRequestFlushed
        ) {
            self.oracle.mark_may_be_broken(pair, side);
        }
        self.count_completion(done);
        self.oracle
            .completed_in_pool(pair, side, Some(pool), done)?;
        self.release_slot(pool, done.wr_id);
        Ok(())
    }

    /// The number of receives that a host's XRC targets hold for incomplete messages.
    pub(super) fn held_by_targets(&mut self, host: HostId) -> usize {
        let mut held = 0;
        for (state, plan) in self.pairs.iter().zip(&self.plan.pairs) {
            let Some(state) = state else { continue };
            let end = &state.ends[1];
            if plan.connect.kind == QpKind::XrcInitiator && end.alive && end.host == host {
                let queued = self.fabric.nic(host).queued(end.qpn);
                held += queued.map_or(0, |queued| queued.1);
            }
        }
        held
    }

    /// Destroys the domains, after targets and SRQs.
    pub(super) fn destroy_domains(&mut self) -> Verdict {
        for host in 0..self.domains.len() {
            if let Some(domain) = self.domains[host].take()
                && self.pools[domain.pools[0]].alive
                && let Err(error) = self.fabric.nic(HostId(host)).destroy_xrcd(domain.id)
            {
                return violated(format!(
                    "the XRC domain of host {host} can't be destroyed: {error}"
                ));
            }
        }
        Ok(())
    }
}
