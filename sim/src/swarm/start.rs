//! Connections are made.

use super::end::{End, FlowMemory, Layout};
use super::memory::Region;
use super::plan::PairPlan;
use super::run::{PairState, Run};
use crate::connect::connect;
use crate::fabric::HostId;
use crate::oracle::{Causes, FlowAreas, Verdict, Violation};

impl Run<'_> {
    /// Connects a pair.
    pub(super) fn start(&mut self, number: usize) -> Verdict {
        let plan = &self.plan.pairs[number];
        let mut end = |side: usize| {
            let host = HostId(plan.hosts[side]);
            let pd = self.words[host.0].pd;
            End::new(self.fabric.nic(host), pd, host, plan)
        };
        let ends = [end(0), end(1)];
        let names = [0, 1].map(|side: usize| (ends[side].host, ends[side].qpn));
        connect(&mut self.fabric, names, &plan.connect)
            .map_err(|error| Violation(format!("connecting pair {number}: {error}")))?;
        let memory = [self.memory(plan, number, 0)?, self.memory(plan, number, 1)?];
        let areas = [0, 1].map(|side: usize| FlowAreas {
            out: memory[side].out.area(),
            target: memory[side].target.area(),
            inbox: memory[side].inbox.area(),
        });
        let causes = Causes {
            lossy: !self.plan.lossless,
            rnr_limited: plan.connect.rnr_retry < 7,
        };
        self.oracle.connected(number, causes, areas);
        self.pairs[number] = Some(PairState { ends, memory });
        // Receives first, as applications do.
        self.pump(number, 1)?;
        self.pump(number, 0)
    }

    fn memory(
        &mut self,
        plan: &PairPlan,
        number: usize,
        side: usize,
    ) -> Result<FlowMemory, Violation> {
        let Layout {
            out_at,
            out_len,
            inbox_at,
            inbox_len,
        } = Layout::of(&plan.ops[side]);
        let mut region = |of: usize, which: usize, len: usize| {
            let host = HostId(plan.hosts[of]);
            let pd = self.words[host.0].pd;
            let name = 6 * number + 3 * side + which;
            Region::new(self.fabric.nic(host), pd, name, len)
        };
        Ok(FlowMemory {
            out: region(side, 0, out_len)?,
            target: region(1 - side, 1, plan.target_bytes)?,
            inbox: region(1 - side, 2, inbox_len)?,
            out_at,
            inbox_at,
            registered: [true; 3],
        })
    }
}
