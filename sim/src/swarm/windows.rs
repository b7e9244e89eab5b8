//! Changing keys: memory windows are bound and invalidated, and regions lose their remote rights.
//! Also selects the key that a request uses.

use super::end::{Bound, WindowState};
use super::memory::Region;
use super::plan::{Kind, Op, WindowPlan, Wrong};
use super::request::Request;
use super::state::Run;
use crate::fabric::HostId;
use crate::oracle::{Effect, KeyState, Verdict, Violation, violated};
use roce_stack::{Access, MwBind, MwType, RemoteAddr, SendOp, WcOpcode};

/// The remote address of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
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
        let pd = self.words[host.0].pd;
        let nic = self.fabric.nic(host);
        let make = |plan: &WindowPlan| {
            let id = nic.alloc_mw(pd, plan.kind);
            let id = id.map_err(|error| Violation(format!("a window: {error}")))?;
            Ok(WindowState {
                plan: *plan,
                id: Some(id),
                next_key: 0,
                bound: None,
                before: None,
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

    /// The request as the application would post it now: with its window, if any, and marked as
    /// faulty if its key is gone.
    pub(super) fn as_it_is_now(&self, pair: usize, side: usize, op: &Op) -> (Op, Option<Bound>) {
        if op.kind.is_local() {
            return (self.local_as_it_is_now(pair, side, op), None);
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
        if let Some(found) = window.and_then(|window| self.through(pair, side, op, window)) {
            return found;
        }
        let region = self.target_key(pair, side);
        let state = self.oracle.key_state(pair, side, region);
        if op.kind == Kind::SendInvalidate && (!windows.is_empty() || state == KeyState::Going) {
            let wrong = op.wrong.filter(|wrong| *wrong == Wrong::LocalKey);
            let kind = Kind::Send;
            return (Op { kind, wrong, ..*op }, None);
        }
        let gone = matches!(state, KeyState::Taken | KeyState::Gone);
        // Only this fault: a READ with two faults may fail by either.
        let wrong = gone.then_some(Wrong::Invalidated).or(op.wrong);
        (Op { wrong, ..*op }, None)
    }

    /// The request through a window, if the application would use it.
    fn through(
        &self,
        pair: usize,
        side: usize,
        op: &Op,
        window: &WindowState,
    ) -> Option<(Op, Option<Bound>)> {
        let old = window.before.filter(|_| op.hasty && op.at % 2 == 1);
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
            || invalidates && matches!(state, KeyState::Coming | KeyState::Going)
        {
            return None;
        }
        let wrong = match state {
            KeyState::Taken | KeyState::Gone => Some(Wrong::Invalidated),
            _ if denied => Some(Wrong::AccessRight),
            _ => op.wrong,
        };
        // Without the fence, earlier READs may lose the key.
        let fence = op.fence || invalidates && !op.hasty;
        let op = Op {
            wrong,
            fence,
            ..*op
        };
        Some((op, Some(bound)))
    }

    /// The offset in the target and the key of a request.
    pub(super) fn way_to(&self, op: &Op, target: &Region, bound: Option<Bound>) -> Way {
        let (from, room) = match bound {
            Some(bound) => (bound.from, bound.len),
            None => (0, target.len),
        };
        let at = match op.wrong {
            Some(Wrong::Bounds) if bound.is_some() && op.at % 2 == 1 => room - op.len + 1,
            Some(Wrong::Bounds) => room - op.len + 1 + op.at % op.len,
            // Any offset at which it fits.
            _ => op.at % (room.saturating_sub(op.len) + 1),
        };
        // Words are aligned.
        let at = match op.kind {
            Kind::AtomicWrite if op.wrong == Some(Wrong::Bounds) => at.next_multiple_of(8),
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
        if op.wrong == Some(Wrong::RemoteKey) {
            remote.rkey ^= 0x5555_5555;
        }
        Way {
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

    /// A request about a key of this side's memory, if one makes sense now; otherwise a WRITE of no
    /// bytes.
    fn local_as_it_is_now(&self, pair: usize, side: usize, op: &Op) -> Op {
        let users = 1 - side;
        let nothing = Op {
            kind: Kind::Write,
            len: 0,
            window: None,
            wrong: None,
            ..*op
        };
        let there = |state: &super::state::PairState| state.memory[users].registered[1];
        if !self.pairs[pair].as_ref().is_some_and(there) {
            return nothing;
        }
        let state = |key| self.oracle.key_state(pair, users, key);
        let free_to_go = |key| op.hasty || !self.oracle.key_in_use(pair, users, key);
        let windows = self.windows(pair, users);
        let Some(window) = op.window.and_then(|index| windows.get(index)) else {
            let key = self.target_key(pair, users);
            let sensible = windows.is_empty()
                && op.kind == Kind::LocalInv
                && state(key) == KeyState::Valid
                && free_to_go(key);
            return if sensible { *op } else { nothing };
        };
        let key = window.bound.map(|bound| bound.rkey);
        let key_state = key.map_or(KeyState::Gone, state);
        let lives = matches!(key_state, KeyState::Coming | KeyState::Valid);
        let may_go = key.is_none_or(free_to_go);
        let invalidate = Op {
            kind: Kind::LocalInv,
            wrong: None,
            ..*op
        };
        match (window.plan.kind, op.kind) {
            _ if window.id.is_none() => nothing,
            (MwType::Type1, Kind::Bind) if may_go => *op,
            // The window is already bound, so this must be refused.
            (MwType::Type2, Kind::Bind)
                if key_state == KeyState::Valid && op.hasty && op.at % 2 == 1 =>
            {
                let wrong = Some(Wrong::Bounds);
                Op { wrong, ..*op }
            }
            (MwType::Type2, _) if lives && may_go => invalidate,
            (MwType::Type2, Kind::Bind)
                if matches!(key_state, KeyState::Going | KeyState::Gone) =>
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
        let bound = Bound {
            rkey: id.rkey(key),
            from,
            len,
            access: window.plan.access,
            zero_based: window.plan.zero_based,
        };
        let right = op.wrong.is_none();
        let bind = MwBind {
            window: id,
            key,
            lkey: match op.wrong {
                Some(Wrong::LocalKey) => target.key ^ 0x5555_5555,
                _ => target.key,
            },
            addr: target.remote(from).addr,
            len: match op.wrong {
                // One byte too many.
                Some(Wrong::Bounds) => (target.len - from + 1) as u64,
                _ if unbinds && right => 0,
                _ => len as u64,
            },
            access: bound.access,
            zero_based: bound.zero_based,
        };
        let mut effect = Effect::Bind {
            key: None,
            replaces: None,
        };
        if right {
            window.next_key = key.wrapping_add(1);
            let lives = |bound: &Bound| {
                let state = self.oracle.key_state(pair, users, bound.rkey);
                state != KeyState::Gone
            };
            let replaces = old.filter(lives).map(|bound| bound.rkey);
            window.before = old;
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
