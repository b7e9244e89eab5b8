//! The namespaces of a fabric. The kernel removes them, and ends all processes in them, when the
//! first process in them ends, however it ends. So nothing of a fabric can be left behind.

use crate::error::FabricError;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use roce_trust::map_ids;
use std::io;
use std::path::Path;

/// Leaves the namespaces of this process for new ones. Its next child is the first process of the
/// new PID namespace: when that child ends, all others in it are killed. Without privilege, this
/// process also enters a user namespace, in which user and group have the same IDs as outside; but
/// see [`map_ids`].
///
/// # Errors
/// If the system does not allow it. The process must have no other threads.
pub fn enter() -> Result<(), FabricError> {
    let own = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWPID;
    match unshare(own) {
        Ok(()) => {}
        Err(Errno::EPERM) => enter_as_user(own)?,
        Err(error) => return Err(FabricError::new("make namespaces", error)),
    }
    // Mounts outside still become visible here, and those made here are visible to no one else.
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount_over(None, "/", None, flags)
        .map_err(|error| FabricError::new("make mounts private", error))
}

fn enter_as_user(own: CloneFlags) -> Result<(), FabricError> {
    let (user, group) = (geteuid(), getegid());
    unshare(own | CloneFlags::CLONE_NEWUSER).map_err(|error| {
        FabricError::new(
            "make a user namespace, which a fabric needs when it is not started by root \
             (is user.max_user_namespaces 0, or does AppArmor forbid them: \
             kernel.apparmor_restrict_unprivileged_userns?)",
            error,
        )
    })?;
    map_ids(user.as_raw(), group.as_raw())
        .map_err(|error| FabricError::new("map the user into a user namespace", error))
}

/// Shows the processes of this PID namespace in `/proc`. A container may not allow it: then `/proc`
/// shows all processes that the container sees, with the numbers that they have there.
pub(crate) fn show_processes() -> io::Result<()> {
    mount_over(Some("proc"), "/proc", Some("proc"), MsFlags::empty())
}

pub(crate) fn mount_over(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: MsFlags,
) -> io::Result<()> {
    Ok(mount(
        source.map(Path::new),
        Path::new(target),
        kind.map(Path::new),
        flags,
        None::<&Path>,
    )?)
}
