//! Binds and invalidates memory windows, and revokes the remote rights of regions. Also selects the
//! key that a request uses.

use super::end::{Binding, WindowState};
use super::memory::Region;
use super::plan::{Kind, Op, RequestFault, WindowPlan};
use super::request::Request;
use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{Effect, KeyState, Verdict, Violation, about, violated};
use roce_stack::{Access, MwBind, MwType, RemoteAddr, SendOp, WcOpcode};

/// The remote address of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteLocation {
    pub(super) remote: RemoteAddr,
    /// The offset in the target.
    pub(super) at: usize,
}

impl Run<'_> {
    /// Makes the windows for a flow from `side`, whose target is on `host`.
    pub(super) fn make_windows(
        &mut self,
        plans: &[WindowPlan],
        host: HostId,
    ) -> Result<Vec<WindowState>, Violation> {
        let pd = self.hosts[host.0].pd;
        let nic = self.fabric.nic(host);
        let make = |plan: &WindowPlan| {
            let id = nic.alloc_mw(pd, plan.kind);
            let id = id.map_err(about("a window"))?;
            Ok(WindowState {
                plan: *plan,
                id: Some(id),
                next_key: 0,
                bound: None,
                previous: None,
            })
        };
        plans.iter().map(make).collect()
    }

    pub(super) fn windows(&self, pair: usize, side: usize) -> &[WindowState] {
        match &self.pairs[pair] {
            Some(state) => &state.memory[side].windows,
            None => &[],
        }
    }

    /// Restores the windows that [`Run::windows`] returned.
    pub(super) fn set_windows(&mut self, pair: usize, side: usize, windows: Vec<WindowState>) {
        if let Some(state) = &mut self.pairs[pair] {
            state.memory[side].windows = windows;
        }
    }

    /// The request as the application posts it now: through its window, if that is bound, and
    /// marked as faulty if its key was revoked.
    pub(super) fn resolve(&self, pair: usize, side: usize, op: &Op) -> (Op, Option<Binding>) {
        if op.kind.is_local() {
            return (self.resolve_local(pair, side, op), None);
        }
        // The key is not checked if there are no bytes.
        let needs_key = match op.kind {
            Kind::Write | Kind::WriteImm | Kind::Read => op.len > 0,
            Kind::AtomicWrite | Kind::Flush | Kind::SendInvalidate => true,
            _ => false,
        };
        if !needs_key {
            return (*op, None);
        }
        let windows = self.windows(pair, side);
        let window = op.window.and_then(|index| windows.get(index));
        if let Some(found) =
            window.and_then(|window| self.resolve_through_window(pair, side, op, window))
        {
            return found;
        }
        let region = self.target_key(pair, side);
        let state = self.oracle.key_state(pair, side, region);
        if op.kind == Kind::SendInvalidate && (!windows.is_empty() || state == KeyState::Revoking) {
            let fault = op.fault.filter(|fault| *fault == RequestFault::LocalKey);
            let kind = Kind::Send;
            return (Op { kind, fault, ..*op }, None);
        }
        let is_revoked = matches!(state, KeyState::InvalidationPosted | KeyState::Revoked);
        // The request has only this fault: a READ with two faults may fail with either.
        let fault = is_revoked.then_some(RequestFault::Invalidated).or(op.fault);
        let op = self.resolve_granted(pair, side, Op { fault, ..*op });
        (op, None)
    }

    /// The request through a window, if the application would use it.
    fn resolve_through_window(
        &self,
        pair: usize,
        side: usize,
        op: &Op,
        window: &WindowState,
    ) -> Option<(Op, Option<Binding>)> {
        let old = window.previous.filter(|_| op.hasty && op.at % 2 == 1);
        let bound = old.or(window.bound)?;
        let needed = match op.kind {
            Kind::SendInvalidate => Access::empty(),
            Kind::Read => Access::REMOTE_READ,
            Kind::Flush => Access::FLUSH_GLOBAL,
            _ => Access::REMOTE_WRITE,
        };
        let invalidates = op.kind == Kind::SendInvalidate;
        let state = self.oracle.key_state(pair, side, bound.rkey);
        let denied = match invalidates {
            true => window.plan.kind == MwType::Type1,
            false => !bound.access.contains(needed),
        };
        if op.len > bound.len && !invalidates
            || (state != KeyState::Valid || denied) && !op.hasty
            // Of two invalidations, either may come first, and the other fails.
            || invalidates && matches!(state, KeyState::Binding | KeyState::Revoking)
        {
            return None;
        }
        let fault = match state {
            KeyState::InvalidationPosted | KeyState::Revoked => Some(RequestFault::Invalidated),
            _ if denied => Some(RequestFault::AccessRight),
            _ => op.fault,
        };
        // Without the fence, earlier READs may lose the key.
        let fence = op.fence || invalidates && !op.hasty;
        let op = Op {
            fault,
            fence,
            ..*op
        };
        Some((op, Some(bound)))
    }

    /// The offset in the target and the key of a request.
    pub(super) fn remote_location(
        &self,
        op: &Op,
        (target, stale_iova): (&Region, Option<u64>),
        bound: Option<Binding>,
    ) -> RemoteLocation {
        let (from, available) = match bound {
            Some(bound) => (bound.from, bound.len),
            None => (0, target.len),
        };
        let at = match op.fault {
            Some(RequestFault::Bounds) if bound.is_some() && op.at % 2 == 1 => {
                available - op.len + 1
            }
            Some(RequestFault::Bounds) => available - op.len + 1 + op.at % op.len,
            // Any offset at which the request fits.
            _ => op.at % (available.saturating_sub(op.len) + 1),
        };
        // Words are aligned.
        let at = match op.kind {
            Kind::AtomicWrite if op.fault == Some(RequestFault::Bounds) => at.next_multiple_of(8),
            Kind::AtomicWrite => at & !7,
            _ => at,
        };
        let mut remote = target.remote(from + at);
        if let Some(bound) = bound {
            remote.rkey = bound.rkey;
            if bound.zero_based {
                remote.addr = at as u64;
            }
        }
        match (op.fault, stale_iova) {
            (Some(RequestFault::RemoteKey), _) => remote.rkey ^= 0x5555_5555,
            (Some(RequestFault::StaleAddress), Some(iova)) => remote.addr = iova + at as u64,
            _ => {}
        }
        RemoteLocation {
            remote,
            at: from + at,
        }
    }

    fn target_key(&self, pair: usize, side: usize) -> u32 {
        match &self.pairs[pair] {
            Some(state) => state.memory[side].target.key,
            None => 0,
        }
    }

    /// A request about a key of this side's memory, if the key's state allows one now. Otherwise a
    /// WRITE of no bytes.
    fn resolve_local(&self, pair: usize, side: usize, op: &Op) -> Op {
        let users = 1 - side;
        let nothing = Op {
            kind: Kind::Write,
            len: 0,
            window: None,
            fault: None,
            ..*op
        };
        let there = |state: &super::state::PairState| state.memory[users].registered[1];
        if !self.pairs[pair].as_ref().is_some_and(there) {
            return nothing;
        }
        let state = |key| self.oracle.key_state(pair, users, key);
        let may_revoke = |key| op.hasty || !self.oracle.key_in_use(pair, users, key);
        let windows = self.windows(pair, users);
        let Some(window) = op.window.and_then(|index| windows.get(index)) else {
            let key = self.target_key(pair, users);
            let is_useful = windows.is_empty()
                && op.kind == Kind::LocalInv
                && state(key) == KeyState::Valid
                && may_revoke(key);
            return if is_useful { *op } else { nothing };
        };
        let key = window.bound.map(|bound| bound.rkey);
        let key_state = key.map_or(KeyState::Revoked, state);
        let lives = matches!(key_state, KeyState::Binding | KeyState::Valid);
        let may_replace = key.is_none_or(may_revoke);
        let invalidate = Op {
            kind: Kind::LocalInv,
            fault: None,
            ..*op
        };
        match (window.plan.kind, op.kind) {
            _ if window.id.is_none() => nothing,
            (MwType::Type1, Kind::Bind) if may_replace => *op,
            // The window is already bound, so this must be refused.
            (MwType::Type2, Kind::Bind)
                if key_state == KeyState::Valid && op.hasty && op.at % 2 == 1 =>
            {
                let fault = Some(RequestFault::Bounds);
                Op { fault, ..*op }
            }
            (MwType::Type2, _) if lives && may_replace => invalidate,
            (MwType::Type2, Kind::Bind)
                if matches!(key_state, KeyState::Revoking | KeyState::Revoked) =>
            {
                *op
            }
            _ => nothing,
        }
    }

    /// A binding or an invalidation, for the NIC and for the oracle. Updates the window.
    pub(super) fn local_request(&mut self, pair: usize, side: usize, op: &Op) -> Request {
        let users = 1 - side;
        let region_key = self.target_key(pair, users);
        let Some(state) = &mut self.pairs[pair] else {
            unreachable!("only connected pairs post");
        };
        let memory = &mut state.memory[users];
        let window = op.window.and_then(|index| memory.windows.get_mut(index));
        let old = window.as_ref().and_then(|window| window.bound);
        let (window, id) = match window.map(|window| (window.id, window)) {
            Some((Some(id), window)) if op.kind == Kind::Bind => (window, id),
            _ => {
                let key = old.map_or(region_key, |bound| bound.rkey);
                let effect = Effect::Invalidate { key };
                return Request::local(SendOp::LocalInv(key), effect, WcOpcode::LocalInv);
            }
        };
        let target = &memory.target;
        let len = op.len & !7;
        let from = (op.at % (target.len - len + 1)) & !7;
        // Only type 1 windows: sometimes the window is only unbound.
        let unbinds = window.plan.kind == MwType::Type1 && op.at.is_multiple_of(5);
        let key = window.next_key;
        let bound = Binding {
            rkey: id.rkey(key),
            from,
            len,
            access: window.plan.access,
            zero_based: window.plan.zero_based,
        };
        let is_valid = op.fault.is_none();
        let bind = MwBind {
            window: id,
            key,
            lkey: match op.fault {
                Some(RequestFault::LocalKey) => target.key ^ 0x5555_5555,
                _ => target.key,
            },
            addr: target.remote(from).addr,
            len: match op.fault {
                // One byte too many.
                Some(RequestFault::Bounds) => (target.len - from + 1) as u64,
                _ if unbinds && is_valid => 0,
                _ => len as u64,
            },
            access: bound.access,
            zero_based: bound.zero_based,
        };
        let mut effect = Effect::Bind {
            key: None,
            replaces: None,
        };
        if is_valid {
            window.next_key = key.wrapping_add(1);
            let lives = |bound: &Binding| {
                let state = self.oracle.key_state(pair, users, bound.rkey);
                state != KeyState::Revoked
            };
            let replaces = old.filter(lives).map(|bound| bound.rkey);
            window.previous = old;
            window.bound = (!unbinds).then_some(bound);
            let key = window.bound.map(|bound| bound.rkey);
            effect = Effect::Bind { key, replaces };
        }
        Request::local(SendOp::BindMw(bind), effect, WcOpcode::BindMw)
    }

    /// Frees a window that `side` uses.
    pub(super) fn free_window(&mut self, pair: usize, side: usize, which: usize) -> Verdict {
        self.poll(pair, 1 - side)?;
        let Some(state) = &mut self.pairs[pair] else {
            return Ok(());
        };
        let host = state.ends[1 - side].host;
        let Some(window) = state.memory[side].windows.get_mut(which) else {
            return Ok(());
        };
        let Some(id) = window.id.take() else {
            return Ok(());
        };
        let key = window.bound.map(|bound| bound.rkey);
        if !self.fabric.nic(host).dealloc_mw(id) {
            return violated(format!(
                "window {which} of pair {pair} side {side} is not there"
            ));
        }
        self.oracle.window_freed(pair, side, key);
        Ok(())
    }

    /// Forgets the windows of a host that restarts.
    pub(super) fn forget_windows(&mut self, host: HostId) {
        for state in self.pairs.iter_mut().flatten() {
            for side in [0, 1] {
                if state.ends[1 - side].host == host {
                    state.memory[side].windows.clear();
                }
            }
        }
    }
}
