//! The processes that a run leaves behind.
//!
//! This process is their subreaper: when a process of the test ends, its children become children
//! of this one. So all of them are found, also those that left the test's process group, and no
//! other process is among them.

use crate::process::parent_of;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io;

/// Makes this process the parent of all that its tests leave behind.
pub(super) fn adopt() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// How `child` has ended, if it has. It stays a zombie, so that its number stays its own.
pub(super) fn end_of(child: Pid) -> io::Result<Option<WaitStatus>> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(child), flags) {
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(status) => return Ok(Some(status)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills the group of `child`, which has not been reaped.
pub(super) fn kill_group(child: Pid) {
    // Fails if the child has ended, and was alone.
    let _ = killpg(child, Signal::SIGKILL);
}

/// Reaps all that have ended, and kills the other children of this process. True if none is left.
pub(super) fn clear() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => break,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return true,
        }
    }
    for child in children() {
        // Fails for a process of another user.
        let _ = kill(child, Signal::SIGKILL);
    }
    false
}

/// The children of this process. Their numbers stay their own until this process reaps them.
pub(super) fn children() -> Vec<Pid> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(own))
        .map(|id| Pid::from_raw(id.cast_signed()))
        .collect()
}
