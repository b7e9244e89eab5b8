//! The owners of processes and files, by which the remains of a dead run are found.
//!
//! Each lab has a name, `PID.STARTTIME.N`: the process that made it and its Nth
//! lab. It is the name of the lab's folder, and is in the environment of each process that the lab
//! starts and of their children.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::LabError;

/// The environment variable that carries the lab's name.
pub(super) const VARIABLE: &str = "ROCE_LAB_RUN";

/// Folders of labs that failed, of which the newest few are kept.
const KEPT_FAILURES: usize = 5;

/// A lab's folder of logs and captures, deleted when dropped, unless panicking.
#[derive(Debug)]
pub(super) struct RunDir {
    path: PathBuf,
    owner: String,
}

impl RunDir {
    pub(super) fn create(cache: &Path) -> Result<Self, LabError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pid = process::id();
        let start = start_time(pid).unwrap_or_default();
        let owner = format!("{pid}.{start}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = runs(cache).join(&owner);
        fs::create_dir_all(&path).map_err(|e| LabError::io("create", &path, &e))?;
        Ok(Self { path, owner })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        kill_marked(|owner| owner == self.owner);
        if thread::panicking() {
            eprintln!(
                "lab: console log and captures are kept in {}",
                self.path.display()
            );
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("lab: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Kills the processes of labs whose owners are dead, and removes their folders except for the
/// newest few.
pub(super) fn sweep(cache: &Path) {
    kill_marked(is_dead);
    let Ok(entries) = fs::read_dir(runs(cache)) else {
        return;
    };
    let mut dead: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| is_dead(&entry.file_name().to_string_lossy()))
        .map(|entry| {
            (
                entry.metadata().and_then(|m| m.modified()).ok(),
                entry.path(),
            )
        })
        .collect();
    dead.sort();
    dead.truncate(dead.len().saturating_sub(KEPT_FAILURES));
    for (_, path) in dead {
        if let Err(error) = fs::remove_dir_all(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!("lab: cannot remove {}: {error}", path.display());
        }
    }
}

/// Processes of this machine whose environment names a lab for which `select` returns true.
pub(super) fn marked(select: impl Fn(&str) -> bool) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != process::id() && lab_of(pid).is_some_and(|owner| select(&owner)))
        .collect()
}

/// Kills the processes that [`marked`] finds.
fn kill_marked(select: impl Fn(&str) -> bool) {
    for pid in marked(select) {
        let pid = libc::pid_t::try_from(pid).unwrap_or_default();
        if pid > 1 {
            // SAFETY: kill takes plain numbers; the process is one that a lab
            // started, as its environment says. If it has ended meanwhile, the call fails, which
            // does no harm.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// The lab that started the process, directly or not.
fn lab_of(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|&byte| byte == 0).find_map(|variable| {
        let value = std::str::from_utf8(variable).ok()?.strip_prefix(VARIABLE)?;
        value.strip_prefix('=').map(str::to_owned)
    })
}

/// Whether the process that made the lab `owner` is gone. Its start time distinguishes it from a
/// later process with the same ID.
fn is_dead(owner: &str) -> bool {
    let mut parts = owner.split('.');
    let (Some(Ok(pid)), Some(Ok(start))) = (
        parts.next().map(str::parse::<u32>),
        parts.next().map(str::parse::<u64>),
    ) else {
        return false;
    };
    start_time(pid) != Some(start)
}

/// When the process started, in clock ticks since boot: field 22 of its stat. The
/// second field, in parentheses, may hold anything.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn runs(cache: &Path) -> PathBuf {
    cache.join("runs")
}
