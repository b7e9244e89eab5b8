//! Keys that can be revoked, and their states.

use roce_stack::WcStatus;
use std::collections::{BTreeMap, BTreeSet};

/// The completion of a SEND whose key can't be invalidated: the responder does not answer it (IBTA
/// 1.7, 9.9.6.3, class J).
pub const INVALIDATION_REFUSED: &[WcStatus] = &[WcStatus::RetryExceeded];

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// A request that binds the key is posted and has not completed.
    Binding,
    /// The key grants access.
    Valid,
    /// A posted request of the key's user invalidates the key. Requests posted before it may still
    /// use the key.
    InvalidationPosted,
    /// The owner of the key has posted a request that revokes it.
    Revoking,
    /// The key no longer grants access.
    Revoked,
}

/// The keys of one flow's target.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) states: BTreeMap<u32, KeyState>,
    /// Requests that raced with the binding or revocation of their key: both results are right.
    pub(super) uncertain: BTreeSet<usize>,
    /// Whether a window was freed, so that requests about the window may fail.
    pub(super) window_freed: bool,
}

impl Keys {
    /// The state of a key. Keys that were never mentioned belong to regions.
    pub(super) fn state(&self, key: u32) -> KeyState {
        self.states.get(&key).copied().unwrap_or(KeyState::Valid)
    }

    pub(super) fn set(&mut self, key: u32, state: KeyState) {
        self.states.insert(key, state);
    }
}
