//! User and group IDs in a user namespace: the same as outside, except for the user whose ID stands
//! for all others there ([`inner_id`]).

use nix::unistd::{Gid, Uid, getegid, geteuid};
use roce_trust::inner_id;
use std::fs;
use std::io;

/// The ids to map.
pub(super) struct Ids {
    user: Uid,
    group: Gid,
}

impl Ids {
    /// The IDs of this process outside.
    pub(super) fn own() -> Self {
        Self {
            user: geteuid(),
            group: getegid(),
        }
    }

    /// Maps the IDs in the namespace that the process has just entered. An ordinary
    /// user may map only their own user and group IDs. Supplementary groups keep their rights,
    /// though they have no names in the namespace.
    pub(super) fn map(&self) -> io::Result<()> {
        let Self { user, group } = self;
        fs::write("/proc/self/setgroups", "deny")?;
        let inner = inner_id(user.as_raw());
        fs::write("/proc/self/uid_map", format!("{inner} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
    }
}
