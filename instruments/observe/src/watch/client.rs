//! Queries all processes of this host for snapshots of their devices.
//!
//! The answers are not trusted: their total time and memory are bounded. Processes of other users
//! are not queried, unless the caller is root. Any user can take any number of names, so owners come
//! before limits.

use super::names::{self, Name};
use super::snapshot::Snapshot;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use roce_trust::{OwnUser, peer};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The maximum number of processes to query, and of bytes in all their answers together.
const MAX_PROCESSES: usize = 512;
const MAX_BYTES: usize = 256 << 20;

/// The processes of this network namespace that have a device open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// The snapshots of the processes that answered, by process ID.
    pub snapshots: Vec<Snapshot>,
    /// The number of processes of other users, which only root may query.
    pub forbidden: usize,
    /// The number of processes that gave no valid answer in time. They are stopped, or run another
    /// version.
    pub silent: usize,
}

/// Queries all processes that have a device open in this network namespace, and waits at most
/// `patience` for their answers.
///
/// # Errors
/// If the kernel's list of sockets can't be read.
pub fn watch_processes(patience: Duration) -> io::Result<Processes> {
    let deadline = Instant::now() + patience;
    let mut found = Processes::default();
    let mut queries = Vec::new();
    let user = OwnUser::now();
    let (names, forbidden) = choose(names::all()?, user);
    found.forbidden = forbidden;
    for name in names {
        match contact(&name, user) {
            Ok(Some(query)) => queries.push(query),
            Ok(None) => found.forbidden += 1,
            // The process has ended meanwhile.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => found.silent += 1,
        }
    }
    // No user's answers take the room of another's.
    let mut bytes_left: HashMap<u32, usize> = HashMap::new();
    let users: HashSet<u32> = queries.iter().map(|query| query.user).collect();
    let share = MAX_BYTES / users.len().max(1);
    while queries.iter().any(|query| !query.has_ended) && wait(&queries, deadline) {
        for query in queries.iter_mut().filter(|query| !query.has_ended) {
            query.read_answer(bytes_left.entry(query.user).or_insert(share));
        }
    }
    for query in queries {
        match query.into_snapshot() {
            Some(snapshot) => found.snapshots.push(snapshot),
            None => found.silent += 1,
        }
    }
    found.snapshots.sort_by_key(|snapshot| snapshot.pid);
    Ok(found)
}

/// The names to query, at most [`MAX_PROCESSES`], and the number of those that may not be queried.
/// If root queries several users, each gets its turn, this one first.
fn choose(names: Vec<Name>, user: OwnUser) -> (Vec<String>, usize) {
    let may_query = |name: &Name| name.owner.is_none_or(|owner| user.may_read(owner));
    let (names, forbidden): (Vec<_>, Vec<_>) = names.into_iter().partition(may_query);
    let mut counts: HashMap<Option<u32>, usize> = HashMap::new();
    let mut ranked: Vec<_> = names
        .into_iter()
        .map(|Name { name, owner }| {
            let is_other = owner.is_some_and(|owner| !user.is(owner));
            let rank = counts.entry(owner).or_default();
            *rank += 1;
            (is_other, *rank, name)
        })
        .collect();
    ranked.sort_unstable();
    let names = ranked.into_iter().map(|(_, _, name)| name);
    (names.take(MAX_PROCESSES).collect(), forbidden.len())
}

pub(super) struct Query {
    stream: File,
    /// Its ID, according to the kernel; 0 if its PID namespace is not visible from here.
    pid: u32,
    /// Its user.
    user: u32,
    response: Vec<u8>,
    has_ended: bool,
}

/// Queries a process; `None` if only root may.
fn contact(name: &str, user: OwnUser) -> io::Result<Option<Query>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let stream: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(
        stream.as_raw_fd(),
        &UnixAddr::new_abstract(name.as_bytes())?,
    )?;
    let owner = peer(&stream)?;
    if !user.may_read(owner.user) {
        return Ok(None);
    }
    Ok(Some(Query {
        stream: stream.into(),
        pid: u32::try_from(owner.pid).unwrap_or(0),
        user: owner.user,
        response: Vec::new(),
        has_ended: false,
    }))
}

/// Waits for an answer. Returns `false` after the deadline.
fn wait(queries: &[Query], deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let open = queries.iter().filter(|query| !query.has_ended);
    let mut polled: Vec<_> = open
        .map(|query| PollFd::new(query.stream.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut polled, timeout);
    true
}

impl Query {
    /// Reads the part of the answer that has arrived. `bytes_left` limits the size of all answers
    /// together.
    pub(super) fn read_answer(&mut self, bytes_left: &mut usize) {
        let mut chunk = [0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 && count <= *bytes_left => {
                    *bytes_left -= count;
                    self.response.extend_from_slice(&chunk[..count]);
                }
                Ok(count) => {
                    // Discard an answer that is too long.
                    if count > 0 {
                        self.response.clear();
                    }
                    self.has_ended = true;
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_ended = error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    pub(super) fn into_snapshot(self) -> Option<Snapshot> {
        let mut snapshot: Snapshot = serde_json::from_slice(&self.response).ok()?;
        if !self.has_ended {
            return None;
        }
        if self.pid != 0 {
            snapshot.pid = self.pid;
        }
        Some(snapshot)
    }
}

/// For answers that are hostile.
#[cfg(any(test, fuzzing))]
impl Query {
    /// A query to the process at the other end of a non-blocking stream.
    pub(super) fn of(stream: OwnedFd, pid: u32) -> Self {
        Self {
            stream: stream.into(),
            pid,
            user: 0,
            response: Vec::new(),
            has_ended: false,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The number of bytes that are kept.
    pub(super) fn response_len(&self) -> usize {
        self.response.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(owner: u32, count: usize) -> Vec<Name> {
        let name = |n| Name {
            name: format!("{owner}/{n:05}"),
            owner: Some(owner),
        };
        (0..count).map(name).collect()
    }

    /// Names of another user that come first in the kernel's list.
    fn crowded() -> Vec<Name> {
        [names_of(1000, 5000), names_of(2000, 3)].concat()
    }

    #[test]
    fn names_of_other_users_take_no_ones_place() {
        let (chosen, forbidden) = choose(crowded(), OwnUser::new(2000, None));
        assert_eq!(chosen, ["2000/00000", "2000/00001", "2000/00002"]);
        assert_eq!(forbidden, 5000);
    }

    #[test]
    fn root_queries_each_user() {
        let names = [crowded(), names_of(0, 2)].concat();
        let (chosen, forbidden) = choose(names, OwnUser::new(0, None));
        assert_eq!((chosen.len(), forbidden), (MAX_PROCESSES, 0));
        let first = ["0/00000", "0/00001", "1000/00000", "2000/00000"];
        assert_eq!(chosen[..4], first);
        assert!(chosen.iter().any(|name| name == "2000/00002"));
    }

    #[test]
    fn without_owners_all_names_are_queried() {
        let name = Name {
            name: "a".to_owned(),
            owner: None,
        };
        let (chosen, forbidden) = choose(vec![name], OwnUser::new(2000, None));
        assert_eq!((&*chosen, forbidden), (&["a".to_owned()][..], 0));
    }
}
