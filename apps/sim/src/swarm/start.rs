//! Connects pairs.

use super::end::{End, FlowMemory, Grant, Layout, ReceiveSource};
use super::memory::Region;
use super::plan::{CableFault, PairPlan, SrqPlan};
use super::pools::longest;
use super::state::{PairState, PoolSpec, Queue, Run};
use crate::connect::{ConnectSpec, QKEY, header_bytes, move_on};
use crate::fabric::HostId;
use crate::oracle::{Causes, Ends, FlowAreas, Verdict, Violation, about};
use roce_faults::{Chance, FaultSpec};
use roce_stack::{CompletionQueue, Destination, QpKind, RoceVersion, TxMeta};
use std::sync::Arc;

impl Run<'_> {
    /// Connects a pair.
    pub(super) fn start(&mut self, number: usize) -> Verdict {
        let plan = &self.plan.pairs[number];
        let mut ends = [self.make_end(number, 0)?, self.make_end(number, 1)?];
        if plan.connect.kind == QpKind::Ud {
            for side in [0, 1] {
                ends[side].to =
                    Some(self.datagram_destination(&plan.connect, &ends[side], &ends[1 - side])?);
            }
        }
        let names = [0, 1].map(|side: usize| (ends[side].host, ends[side].qpn));
        // The connection manager takes the other steps.
        let steps = if plan.managed { 1 } else { 3 };
        let connected = move_on(&mut self.fabric, names, &plan.connect, steps);
        connected.map_err(about(format_args!("connecting pair {number}")))?;
        let inboxes = [0, 1].map(|side: usize| ends[1 - side].pool.is_none());
        let memory = [
            self.memory(plan, number, 0, inboxes[0])?,
            self.memory(plan, number, 1, inboxes[1])?,
        ];
        let areas = [0, 1].map(|side: usize| FlowAreas {
            out: memory[side].out.area(),
            target: memory[side].target.area(),
            inbox: memory[side].inbox.area(),
        });
        let known = Ends {
            kind: plan.connect.kind,
            qpns: [0, 1].map(|side: usize| ends[side].qpn.get()),
            pools: [0, 1].map(|side: usize| ends[side].pool),
            second_pool: self.domains[plan.hosts[1]]
                .as_ref()
                .filter(|_| plan.connect.kind.is_xrc())
                .map(|domain| domain.pools[1]),
            networks: [0, 1].map(|side: usize| Some(self.network(plan, side))),
        };
        let before = plan.follows.and_then(|pair| self.pairs[pair].as_ref());
        let numbers_again = before.map_or(0, |before| {
            let is_same = |side: &usize| before.ends[*side].qpn == ends[*side].qpn;
            [0, 1].into_iter().filter(is_same).count()
        });
        self.outcome.counts.numbers_again += numbers_again as u64;
        let causes = Causes {
            numbers_again: numbers_again > 0,
            ..self.causes(plan)
        };
        self.oracle.connected(number, known, causes, areas);
        self.pairs[number] = Some(PairState { ends, memory });
        if !plan.managed {
            self.note_first_limits(number);
        }
        self.outcome.counts.v1_pairs += u64::from(plan.connect.version == RoceVersion::V1);
        for pool in known.pools.into_iter().chain([known.second_pool]).flatten() {
            self.refill(pool)?;
        }
        if plan.managed {
            self.request_connection(number)?;
        }
        // The second end posts its receives first, as applications do.
        self.post_requests(number, 1)?;
        self.post_requests(number, 0)
    }

    fn make_end(&mut self, number: usize, side: usize) -> Result<End, Violation> {
        let plan = &self.plan.pairs[number];
        let host = HostId(plan.hosts[side]);
        let pd = self.hosts[host.0].pd;
        let kind = plan.connect.kind;
        let shared = self.srq(host.0).filter(|_| plan.shared[side]);
        let srq = shared.and_then(|pool| self.pools[pool].queue.srqn());
        let domain = self.domains[host.0]
            .as_ref()
            .filter(|_| kind.is_xrc() && side == 1);
        let domain_cq = domain.map(|domain| Arc::clone(&domain.cq));
        let domain = domain.map(|domain| (domain.id, domain.pools[0]));
        let from = match (srq, domain) {
            (Some(srq), _) => ReceiveSource::Srq(srq),
            (_, Some((id, _))) => ReceiveSource::Domain(id),
            _ => ReceiveSource::Own,
        };
        let asks = plan.in_host_cq[side] && domain.is_none();
        let host_cq = asks.then(|| self.host_cq(host)).flatten();
        let in_host_cq = host_cq.is_some();
        let cqs = match domain_cq.or(host_cq) {
            Some(cq) => [Arc::clone(&cq), cq],
            None => self.make_cqs(host, plan, side),
        };
        let mut end = End::new(self.fabric.nic(host), pd, host, (plan, side), from, cqs)?;
        end.in_host_cq = in_host_cq;
        end.pool = match kind {
            _ if domain.is_some() => domain.map(|(_, pool)| pool),
            _ if shared.is_some() => shared,
            QpKind::Uc | QpKind::Ud => {
                let ops = &plan.ops[1 - side];
                let messages = ops.iter().filter(|op| op.kind.consumes_receive()).count();
                let spec = PoolSpec {
                    len: longest(ops) + header_bytes(kind),
                    srq: SrqPlan {
                        depth: plan.depth,
                        ahead: plan.recvs_ahead,
                        gap_ns: plan.recv_gap_ns,
                        limit: 0,
                    },
                    users: 1,
                    // A network that duplicates packets needs more receives than messages.
                    max_posts: 2 * (messages + plan.recvs_ahead) as u64,
                    first: 0,
                };
                Some(self.make_pool(host, Queue::Own(number, side), spec)?)
            }
            _ => None,
        };
        Ok(end)
    }

    /// Makes an end's own CQs.
    fn make_cqs(
        &mut self,
        host: HostId,
        plan: &PairPlan,
        side: usize,
    ) -> [Arc<CompletionQueue>; 2] {
        // Requests to a failed QP complete as soon as they are posted.
        let ops: usize = plan.ops.iter().map(Vec::len).sum();
        let enough = 2 * plan.depth + 2 * ops + 128;
        let send_cq = self.make_cq(host, plan.cqs[side], enough);
        let recv_cq = match plan.one_cq {
            true => Arc::clone(&send_cq),
            false => self.make_cq(host, plan.cqs[side], enough),
        };
        [send_cq, recv_cq]
    }

    /// The destination of datagrams from one end to the other.
    fn datagram_destination(
        &mut self,
        connect: &ConnectSpec,
        from: &End,
        to: &End,
    ) -> Result<Destination, Violation> {
        let path = TxMeta {
            src: self.fabric.address(from.host),
            dst: self.fabric.address(to.host),
            traffic_class: connect.traffic_class,
            hop_limit: 64,
            version: connect.version,
        };
        let pd = self.hosts[from.host.0].pd;
        let ah = self.fabric.nic(from.host).create_ah(pd, path);
        let ah = ah.map_err(about("an address handle"))?;
        Ok(ah.to(to.qpn, QKEY))
    }

    /// The causes of failure that a pair may meet.
    fn causes(&self, plan: &PairPlan) -> Causes {
        Causes {
            lossy: !self.plan.lossless,
            rnr_limited: plan.connect.rnr_retry < 7,
            ..self.causes_of_packets()
        }
    }

    /// The faults of the network apart from loss.
    pub(super) fn causes_of_packets(&self) -> Causes {
        let occurs = |chance: fn(&FaultSpec) -> Chance| {
            self.plan.faults.iter().any(|fault| match &fault.what {
                CableFault::Packets(spec) => !chance(spec).is_never(),
                CableFault::Down(_) => false,
            })
        };
        Causes {
            duplicates: occurs(|spec| spec.duplicate),
            reorders: occurs(|spec| spec.reorder),
            ..Causes::default()
        }
    }

    fn memory(
        &mut self,
        plan: &PairPlan,
        number: usize,
        side: usize,
        inbox: bool,
    ) -> Result<FlowMemory, Violation> {
        let Layout {
            out_at,
            out_len,
            inbox_at,
            inbox_len,
        } = Layout::of(&plan.ops[side], inbox);
        let windows = self.make_windows(&plan.windows[side], HostId(plan.hosts[1 - side]))?;
        let mut region = |of: usize, which: usize, len: usize| {
            let host = HostId(plan.hosts[of]);
            let pd = self.hosts[host.0].pd;
            let name = 6 * plan.follows.unwrap_or(number) + 3 * side + which;
            let on_demand = plan.on_demand[side][which];
            Region::new(self.fabric.nic(host), pd, name, len, on_demand)
        };
        Ok(FlowMemory {
            out: region(side, 0, out_len)?,
            target: region(1 - side, 1, plan.target_bytes)?,
            inbox: region(1 - side, 2, inbox_len)?,
            windows,
            out_at,
            inbox_at,
            registered: [true; 3],
            grant: Grant::default(),
        })
    }
}
