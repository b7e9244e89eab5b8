//! Keys that can be taken away, and how far each has got.

use roce_stack::WcStatus;
use std::collections::{BTreeMap, BTreeSet};

/// How a SEND ends whose key can't be invalidated: the responder does not answer it (IBTA
/// 1.7, 9.9.6.3, class J).
pub const INVALIDATION_REFUSED: &[WcStatus] = &[WcStatus::RetryExceeded];

/// How far a key has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// A window is being bound.
    Coming,
    /// It gives access.
    Valid,
    /// A request of the user of the key, which was posted, takes it away in order.
    Taken,
    /// Its owner is taking it away.
    Going,
    /// It gives no access any more.
    Gone,
}

/// The keys of one flow's target.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) states: BTreeMap<u32, KeyState>,
    /// Requests that came when their key did or went: both answers are right.
    pub(super) uncertain: BTreeSet<usize>,
    /// A window was freed, so that requests about it may fail.
    pub(super) dropped: bool,
}

impl Keys {
    /// Keys that nobody spoke of are those of regions.
    pub(super) fn state(&self, key: u32) -> KeyState {
        self.states.get(&key).copied().unwrap_or(KeyState::Valid)
    }

    pub(super) fn set(&mut self, key: u32, state: KeyState) {
        self.states.insert(key, state);
    }
}
