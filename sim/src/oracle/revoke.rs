//! Keys that can be revoked: those of memory windows, and of regions whose remote rights may be
//! invalidated. The owner of the memory binds and invalidates, while requests of the key's user are
//! in flight. So only an interval is known in which a request may find the change.

use super::flow::Flow;
use super::keys::{INVALIDATION_REFUSED, KeyState};
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
    pub(super) fn lost_window(&self) -> bool {
        self.keys.dropped
    }

    /// Whether any request with the key has neither completed nor been executed.
    fn uses(&self, key: u32) -> bool {
        self.open_uses(key).any(|id| id >= self.next)
    }

    /// The requests with the key that may not have been executed, and the READs that may not have
    /// been answered completely. They include abandoned requests, even if their QP is gone: their
    /// packets may still be in the network.
    fn open_uses(&self, key: u32) -> impl Iterator<Item = usize> {
        let from = self.executed.min(self.answered);
        (from..self.sends.len()).filter(move |id| {
            let send = &self.sends[*id];
            let reads = matches!(send.effect, Effect::Read { .. });
            let open = *id >= self.executed || reads && *id >= self.answered;
            open && send.key == Some(key)
        })
    }

    /// Evaluates the key of request `id`, which was just posted.
    pub(super) fn present_key(&mut self, id: usize) {
        let send = &mut self.sends[id];
        let Some(key) = send.key else { return };
        let state = self.keys.state(key);
        let in_doubt = matches!(state, KeyState::Coming | KeyState::Going);
        if matches!(state, KeyState::Taken | KeyState::Gone) && !send.fails {
            send.fails = true;
            send.statuses = match send.invalidates {
                Some(_) => INVALIDATION_REFUSED,
                None => &[WcStatus::RemoteAccessError],
            };
        }
        if in_doubt {
            self.keys.uncertain.insert(id);
            if send.invalidates.is_some() {
                self.keys.set(key, KeyState::Going);
            }
        } else if send.invalidates.is_some() && !send.fails {
            self.keys.set(key, KeyState::Taken);
        }
    }

    /// A request that invalidates was executed.
    pub(super) fn invalidated(&mut self, key: u32) {
        self.keys.set(key, KeyState::Gone);
    }

    /// The owner of the key starts to revoke it. Returns whether any request uses the key.
    fn key_goes(&mut self, key: u32) -> bool {
        let users: Vec<usize> = self.open_uses(key).collect();
        let used = !users.is_empty();
        self.keys.uncertain.extend(users);
        self.keys.set(key, KeyState::Going);
        used
    }

    /// From now on nothing is accessed through the key.
    fn key_is_gone(&mut self, key: u32) {
        self.keys.set(key, KeyState::Gone);
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
    pub(super) fn local_posted(&mut self, side: usize, id: usize) {
        let (replaced, key) = match self.flows[side].sends[id].effect {
            Effect::Bind { key, replaces } => (replaces, key),
            Effect::Invalidate { key } => (Some(key), None),
            _ => return,
        };
        let users = &mut self.flows[1 - side];
        if let Some(key) = replaced {
            self.qps[side].may_be_broken |= users.key_goes(key);
        }
        if let Some(key) = key {
            users.keys.set(key, KeyState::Coming);
        }
    }

    /// Request `id` of `side` has succeeded.
    pub(super) fn local_done(&mut self, side: usize, id: usize) {
        let (replaced, key) = match self.flows[side].sends[id].effect {
            Effect::Bind { key, replaces } => (replaces, key),
            Effect::Invalidate { key } => (Some(key), None),
            _ => return,
        };
        let users = &mut self.flows[1 - side];
        if let Some(key) = replaced {
            users.key_is_gone(key);
        }
        if let Some(key) = key.filter(|key| users.keys.state(*key) == KeyState::Coming) {
            users.keys.set(key, KeyState::Valid);
        }
    }

    /// Whether a request of `side` about keys of its own memory may be refused.
    pub(super) fn may_refuse_local(&self, side: usize) -> bool {
        let users = &self.flows[1 - side];
        users.is_gone(AreaName::Target) || users.lost_window()
    }
}

impl Oracle {
    /// The state of a key of `side`'s target.
    pub fn key_state(&self, pair: usize, side: usize, key: u32) -> KeyState {
        self.pairs[&pair].flows[side].keys.state(key)
    }

    /// Whether requests of `side` with the key may be in flight.
    pub fn key_in_use(&self, pair: usize, side: usize, key: u32) -> bool {
        self.pairs[&pair].flows[side].uses(key)
    }

    /// A window of the target of `side` was freed: its key is gone at once.
    pub fn window_freed(&mut self, pair: usize, side: usize, key: Option<u32>) {
        let known = self.pair(pair);
        let flow = &mut known.flows[side];
        flow.keys.dropped = true;
        if let Some(key) = key {
            flow.key_goes(key);
            flow.key_is_gone(key);
        }
        known.qps[1 - side].may_be_broken = true;
    }
}
