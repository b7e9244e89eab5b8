//! Who one is in a user namespace: the same as outside.

use nix::unistd::{Gid, Uid, getegid, geteuid};
use std::fs;
use std::io;

/// The ids to map.
pub(super) struct Ids {
    user: Uid,
    group: Gid,
}

impl Ids {
    /// Those of this process, outside.
    pub(super) fn own() -> Self {
        Self {
            user: geteuid(),
            group: getegid(),
        }
    }

    /// Maps them to themselves in the namespace that the process has just entered. An
    /// ordinary user may map himself and his group; further groups keep their rights, though
    /// they have no names in there.
    pub(super) fn map(&self) -> io::Result<()> {
        let Self { user, group } = self;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
    }
}
