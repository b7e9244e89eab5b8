//! The sockets of a group that this process holds, once for all of its members.
//!
//! A process that opens a device several times has several members in a group. Each member needs
//! descriptors of all sockets up to its own. If each member had its own set, a few dozen members
//! would exhaust the process's limit of open files.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::keeper::{self, Held};
use super::names::Place;

/// The key of a group in this process. It includes the process ID, because a child after `fork` has
/// places of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    process: u32,
    /// The network namespace.
    namespace: (u64, u64),
    place: Place,
}

type Groups = Vec<(Group, Weak<Mutex<Vec<OwnedFd>>>)>;

static GROUPS: Mutex<Groups> = Mutex::new(Vec::new());

impl Group {
    /// The key in the calling thread's network namespace; `None` if the system does not say which
    /// one that is.
    fn of(place: Place) -> Option<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net").ok()?;
        Some(Self {
            process: std::process::id(),
            namespace: (namespace.dev(), namespace.ino()),
            place,
        })
    }
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sockets that this process's members of the group hold, if it has any.
pub(super) fn held(place: Place) -> Option<Held> {
    let wanted = Group::of(place)?;
    let groups = groups();
    let (_, held) = groups.iter().find(|(group, _)| *group == wanted)?;
    held.upgrade()
}

/// Adds `sockets`, which start with the first of the group, to the ones that the process's other
/// members hold. Returns the shared list.
pub(super) fn hold(place: Place, sockets: Vec<OwnedFd>) -> Held {
    let Some(wanted) = Group::of(place) else {
        return Held::new(Mutex::new(sockets));
    };
    let mut groups = groups();
    groups.retain(|(_, held)| held.strong_count() > 0);
    let known = groups.iter().find(|(group, _)| *group == wanted);
    if let Some(held) = known.and_then(|(_, held)| held.upgrade()) {
        let mut all = keeper::lock(&held);
        let more = sockets.into_iter().skip(all.len());
        all.extend(more);
        drop(all);
        return held;
    }
    let held = Held::new(Mutex::new(sockets));
    groups.push((wanted, Arc::downgrade(&held)));
    held
}
