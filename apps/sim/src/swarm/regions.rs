//! Regions that change: pages of on-demand regions that are unmapped, and regions that are registered
//! again with the same key.

use super::end::Grant;
use super::memory::Region;
use super::plan::{Change, Kind, Op, RequestFault};
use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{AreaName, Reregistration, Verdict, about, violated};
use roce_stack::{Access, PdId, RegisterError, Reregister, ReregisterError};

/// The right that a request needs to use the target; `None` if it does not use the target.
fn needed(kind: Kind) -> Option<Access> {
    match kind {
        Kind::Write | Kind::WriteImm | Kind::AtomicWrite => Some(Access::REMOTE_WRITE),
        Kind::Read => Some(Access::REMOTE_READ),
        Kind::Flush => Some(Access::FLUSH_GLOBAL),
        _ => None,
    }
}

impl Run<'_> {
    /// The request as the application posts it, given what the key of the target grants. Most
    /// applications do not try what is not granted.
    pub(super) fn resolve_granted(&self, pair: usize, side: usize, op: Op) -> Op {
        let Some(state) = &self.pairs[pair] else {
            return op;
        };
        let grant = &state.memory[side].grant;
        let Some(right) = needed(op.kind) else {
            return op;
        };
        let tries = op.at.is_multiple_of(4);
        if grant.own_pd && grant.access.contains(right) {
            let is_stale = grant.stale_iova.is_some() && op.at % 16 == 1 && op.kind != Kind::Flush;
            let fault = is_stale.then_some(RequestFault::StaleAddress).or(op.fault);
            return Op { fault, ..op };
        }
        if tries {
            let fault = Some(RequestFault::AccessRight);
            return Op { fault, ..op };
        }
        // The key is not checked if there are no bytes.
        let kind = match op.kind {
            Kind::WriteImm => Kind::WriteImm,
            _ => Kind::Write,
        };
        Op {
            kind,
            len: 0,
            fault: None,
            ..op
        }
    }

    /// A protection domain of a host without QPs.
    fn other_pd(&mut self, host: HostId) -> PdId {
        let known = self.hosts[host.0].other_pd;
        let pd = known.unwrap_or_else(|| self.fabric.nic(host).alloc_pd());
        self.hosts[host.0].other_pd = Some(pd);
        pd
    }

    /// Unmaps the pages of the out (0), target (1) or inbox (2) of a flow, if it is on demand.
    pub(super) fn unmap(&mut self, pair: usize, side: usize, area: usize) -> Verdict {
        let owner = if area == 0 { side } else { 1 - side };
        self.poll(pair, owner)?;
        if area == 2 && self.end(pair, owner).pool.is_some() {
            return Ok(());
        }
        let Some(state) = &self.pairs[pair] else {
            return Ok(());
        };
        let memory = &state.memory[side];
        let (region, name) = match area {
            0 => (&memory.out, AreaName::Out),
            1 => (&memory.target, AreaName::Target),
            _ => (&memory.inbox, AreaName::Inbox),
        };
        if !memory.registered[area] || !region.unmap() {
            return Ok(());
        }
        self.outcome.counts.unmapped += 1;
        // As if the region were deregistered: every access fails from now on.
        self.oracle.deregistered(pair, side, name)
    }

    /// Registers the target of a flow again, with the same key.
    pub(super) fn reregister(&mut self, pair: usize, side: usize, change: Change) -> Verdict {
        self.poll(pair, 1 - side)?;
        let Some(state) = &self.pairs[pair] else {
            return Ok(());
        };
        let owner = state.ends[1 - side].host;
        let memory = &state.memory[side];
        // Memory whose pages are gone stays gone for the oracle.
        if !memory.registered[1] || !memory.target.is_mapped() || !state.ends[1 - side].alive {
            return Ok(());
        }
        let (mut target, mut grant) = (memory.target.clone(), memory.grant);
        let mut request = Reregister::default();
        match change {
            Change::Access(access) => {
                request.access = Some(access);
                grant.access = access;
            }
            Change::Invalid => request.access = Some(Access::REMOTE_WRITE),
            Change::OtherPd => {
                request.pd = Some(self.other_pd(owner));
                grant.own_pd = false;
            }
            Change::OwnPd => {
                request.pd = Some(self.hosts[owner.0].pd);
                grant.own_pd = true;
            }
            Change::Memory { shift } => {
                let shift = shift && grant.stale_iova.is_none();
                let (moved, memory) = target.moved(shift)?;
                grant.stale_iova = grant.stale_iova.or(shift.then_some(target.iova()));
                request.memory = Some((memory, Some(moved.iova())));
                target = moved;
            }
        }
        let done = self.fabric.nic(owner).reregister(target.key, request);
        if change == Change::Invalid {
            let refused = ReregisterError::Register(RegisterError::NeedsLocalWrite);
            return match done {
                Err(error) if error == refused => Ok(()),
                other => violated(format!("pair {pair} side {side}: {change:?}: {other:?}")),
            };
        }
        done.map_err(about(format_args!("pair {pair} side {side}: {change:?}")))?;
        self.outcome.counts.reregistered += 1;
        self.note_reregistration(pair, side, change, target, grant)
    }

    fn note_reregistration(
        &mut self,
        pair: usize,
        side: usize,
        change: Change,
        target: Region,
        grant: Grant,
    ) -> Verdict {
        let is_moved = matches!(change, Change::Memory { .. });
        let key = target.key;
        let Some(state) = &mut self.pairs[pair] else {
            return Ok(());
        };
        let memory = &mut state.memory[side];
        let keeps_address = memory.target.iova() == target.iova();
        let changed = Reregistration {
            access: if grant.own_pd {
                grant.access
            } else {
                Access::empty()
            },
            keeps_address,
            moved: is_moved.then(|| target.area()),
        };
        memory.target = target;
        memory.grant = grant;
        self.oracle.reregistered(pair, side, key, changed)
    }
}
