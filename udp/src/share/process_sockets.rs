//! The sockets that this process holds for each group. All members of the process share them.
//!
//! A process that opens a device several times has several members in a group. Each member needs
//! descriptors of all sockets up to its own. If each member had its own set, a few dozen members
//! would exhaust the process's limit of open files.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::keeper::{self, HeldSockets};
use super::names::SharedAddress;

/// Identifies a group in this process. The key includes the process ID, because a child after
/// `fork` has memberships of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupKey {
    process: u32,
    namespace: Namespace,
    shared: SharedAddress,
}

/// Identifies a network namespace.
pub(crate) type Namespace = (u64, u64);

/// The calling thread's network namespace; `None` if it can't be determined.
pub(crate) fn namespace() -> Option<Namespace> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").ok()?;
    Some((namespace.dev(), namespace.ino()))
}

type Groups = Vec<(GroupKey, Weak<Mutex<Vec<OwnedFd>>>)>;

static GROUPS: Mutex<Groups> = Mutex::new(Vec::new());

impl GroupKey {
    /// The key in the calling thread's network namespace; `None` if the namespace can't be
    /// determined.
    fn of(shared: SharedAddress) -> Option<Self> {
        Some(Self {
            process: std::process::id(),
            namespace: namespace()?,
            shared,
        })
    }
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sockets that this process's members of the group hold, if it has any.
pub(super) fn held(shared: SharedAddress) -> Option<HeldSockets> {
    let key = GroupKey::of(shared)?;
    let groups = groups();
    let (_, held) = groups.iter().find(|(group, _)| *group == key)?;
    held.upgrade()
}

/// Adds `sockets`, which start with the first of the group, to the sockets that the process's other
/// members hold. Returns the shared list.
pub(super) fn add(shared: SharedAddress, sockets: Vec<OwnedFd>) -> HeldSockets {
    let Some(key) = GroupKey::of(shared) else {
        return HeldSockets::new(Mutex::new(sockets));
    };
    let mut groups = groups();
    groups.retain(|(_, held)| held.strong_count() > 0);
    let existing = groups.iter().find(|(group, _)| *group == key);
    if let Some(held) = existing.and_then(|(_, held)| held.upgrade()) {
        let mut all = keeper::lock(&held);
        let more = sockets.into_iter().skip(all.len());
        all.extend(more);
        drop(all);
        return held;
    }
    let held = HeldSockets::new(Mutex::new(sockets));
    groups.push((key, Arc::downgrade(&held)));
    held
}
