//! The revocation of keys: those of memory windows, and of regions whose remote rights may be
//! invalidated. The owner of the memory binds and invalidates keys while requests of the key's user
//! are in flight. So the oracle knows only an interval in which a request may see the change.

use super::flow::{Flow, INVALIDATION_REFUSED, KeyState};
use super::pair::Pair;
use super::request::Effect;
use super::{AreaName, Oracle};
use roce_stack::WcStatus;

impl Flow {
    /// Whether request `id` may find its key valid or not.
    pub(super) fn is_uncertain(&self, id: usize) -> bool {
        self.keys.uncertain.contains(&id)
    }

    /// Whether a window of the target was freed.
    pub(super) fn has_freed_window(&self) -> bool {
        self.keys.window_freed
    }

    /// Whether any request with the key has neither completed nor been executed.
    fn is_key_in_use(&self, key: u32) -> bool {
        self.open_uses(key).any(|id| id >= self.next)
    }

    /// The requests with the key that may not have been executed, and the READs that may not have
    /// been answered completely. They include abandoned requests, even if their QP is gone: their
    /// packets may still be in the network.
    pub(super) fn open_uses(&self, key: u32) -> impl Iterator<Item = usize> {
        let from = self.executed.min(self.answered);
        (from..self.sends.len()).filter(move |id| {
            let send = &self.sends[*id];
            let reads = matches!(send.effect, Effect::Read { .. });
            let open = *id >= self.executed || reads && *id >= self.answered;
            open && send.key == Some(key)
        })
    }

    /// Evaluates the key of request `id`, which was just posted.
    pub(super) fn check_key(&mut self, id: usize) {
        let is_gone = self.reliable && self.is_deregistered(AreaName::Target);
        let send = &mut self.sends[id];
        let Some(key) = send.key else { return };
        // A READ of unmapped pages is refused only when it is answered.
        let writes = matches!(send.effect, Effect::Write { .. });
        if is_gone && writes && !send.fails {
            send.fails = true;
            send.statuses = &[WcStatus::RemoteAccessError];
        }
        let state = self.keys.state(key);
        let is_uncertain = matches!(state, KeyState::Binding | KeyState::Revoking);
        if matches!(state, KeyState::InvalidationPosted | KeyState::Revoked) && !send.fails {
            send.fails = true;
            send.statuses = match send.invalidates {
                Some(_) => INVALIDATION_REFUSED,
                None => &[WcStatus::RemoteAccessError],
            };
        }
        if is_uncertain {
            self.keys.uncertain.insert(id);
            if send.invalidates.is_some() {
                self.keys.set(key, KeyState::Revoking);
            }
        } else if send.invalidates.is_some() && !send.fails {
            self.keys.set(key, KeyState::InvalidationPosted);
        }
    }

    /// A request that invalidates the key was executed.
    pub(super) fn invalidated(&mut self, key: u32) {
        self.keys.set(key, KeyState::Revoked);
    }

    /// The owner of the key starts to revoke it. Returns whether any request uses the key.
    fn start_revocation(&mut self, key: u32) -> bool {
        let users: Vec<usize> = self.open_uses(key).collect();
        let used = !users.is_empty();
        self.keys.uncertain.extend(users);
        self.keys.set(key, KeyState::Revoking);
        used
    }

    /// The key no longer grants access.
    fn finish_revocation(&mut self, key: u32) {
        self.keys.set(key, KeyState::Revoked);
        let users: Vec<usize> = self.open_uses(key).collect();
        for id in users {
            let writes = matches!(self.sends[id].effect, Effect::Write { .. });
            if writes && !self.sends[id].fails && !self.end_write(id) {
                self.sends[id].fails = true;
                self.sends[id].statuses = &[WcStatus::RemoteAccessError];
            }
        }
    }
}

impl Pair {
    /// `side` has posted request `id`, which may be about keys of its own memory.
    pub(super) fn key_request_posted(&mut self, side: usize, id: usize) {
        let (replaced, key) = match self.flows[side].sends[id].effect {
            Effect::Bind { key, replaces } => (replaces, key),
            Effect::Invalidate { key } => (Some(key), None),
            _ => return,
        };
        let users = &mut self.flows[1 - side];
        if let Some(key) = replaced {
            self.qps[side].may_be_broken |= users.start_revocation(key);
        }
        if let Some(key) = key {
            users.keys.set(key, KeyState::Binding);
        }
    }

    /// Request `id` of `side` has succeeded.
    pub(super) fn key_request_completed(&mut self, side: usize, id: usize) {
        let (replaced, key) = match self.flows[side].sends[id].effect {
            Effect::Bind { key, replaces } => (replaces, key),
            Effect::Invalidate { key } => (Some(key), None),
            _ => return,
        };
        let users = &mut self.flows[1 - side];
        if let Some(key) = replaced {
            users.finish_revocation(key);
        }
        if let Some(key) = key.filter(|key| users.keys.state(*key) == KeyState::Binding) {
            users.keys.set(key, KeyState::Valid);
        }
    }

    /// Whether a request of `side` about keys of its own memory may be refused.
    pub(super) fn may_refuse_key_request(&self, side: usize) -> bool {
        let users = &self.flows[1 - side];
        users.is_deregistered(AreaName::Target) || users.has_freed_window()
    }
}

impl Oracle {
    /// The state of a key of `side`'s target.
    pub fn key_state(&self, pair: usize, side: usize, key: u32) -> KeyState {
        self.pairs[&pair].flows[side].keys.state(key)
    }

    /// Whether requests of `side` with the key may be in flight.
    pub fn key_in_use(&self, pair: usize, side: usize, key: u32) -> bool {
        self.pairs[&pair].flows[side].is_key_in_use(key)
    }

    /// A window of the target of `side` was freed, which revokes the window's key at once.
    pub fn window_freed(&mut self, pair: usize, side: usize, key: Option<u32>) {
        let known = self.pair(pair);
        let flow = &mut known.flows[side];
        flow.keys.window_freed = true;
        if let Some(key) = key {
            flow.start_revocation(key);
            flow.finish_revocation(key);
        }
        known.qps[1 - side].may_be_broken = true;
    }
}
