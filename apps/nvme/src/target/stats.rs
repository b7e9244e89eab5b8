//! The counters of a target.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a target has and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Connections that exist, with those that are being made.
    pub connections: usize,
    /// Those of them whose host has not sent its connect command yet.
    pub half_open: usize,
    /// Controllers that exist.
    pub controllers: usize,
    /// I/O queues that exist.
    pub queues: usize,
    /// Connections that the target has refused.
    pub refused: u64,
    /// Connections that ended by an error of the host or of the path.
    pub failed: u64,
    /// Commands that the target has answered.
    pub commands: u64,
    /// Those of them whose answer was not "success".
    pub errors: u64,
    /// Bytes that hosts have read from namespaces.
    pub bytes_read: u64,
    /// Bytes that hosts have written to namespaces.
    pub bytes_written: u64,
}

/// Counters, which only rise.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) commands: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn snapshot(&self) -> Snapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            refused: of(&self.refused),
            failed: of(&self.failed),
            commands: of(&self.commands),
            errors: of(&self.errors),
            bytes_read: of(&self.bytes_read),
            bytes_written: of(&self.bytes_written),
            ..Snapshot::default()
        }
    }
}
