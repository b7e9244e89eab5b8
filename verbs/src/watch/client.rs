//! Queries all processes of this host for snapshots of their devices.
//!
//! The answers are not trusted: their total time and memory are bounded. Processes of other users
//! are not queried, unless the caller is root.

use super::names;
use super::snapshot::Snapshot;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt,
};
use nix::unistd::geteuid;
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
    for name in names::all()?.iter().take(MAX_PROCESSES) {
        match contact(name) {
            Ok(Contact::Query(query)) => queries.push(query),
            Ok(Contact::Forbidden) => found.forbidden += 1,
            // The process has ended meanwhile.
            Err(Errno::ECONNREFUSED) => {}
            Err(_) => found.silent += 1,
        }
    }
    let mut bytes_left = MAX_BYTES;
    while queries.iter().any(|query| !query.has_ended) && wait(&queries, deadline) {
        for query in queries.iter_mut().filter(|query| !query.has_ended) {
            query.read_answer(&mut bytes_left);
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

/// The result of an attempt to contact a process.
enum Contact {
    Query(Query),
    Forbidden,
}

/// A query to one process.
pub(super) struct Query {
    stream: File,
    /// Its ID, according to the kernel; 0 if its PID namespace is not visible from here.
    pid: u32,
    response: Vec<u8>,
    has_ended: bool,
}

fn contact(name: &str) -> Result<Contact, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let stream: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(
        stream.as_raw_fd(),
        &UnixAddr::new_abstract(name.as_bytes())?,
    )?;
    let owner = getsockopt(&stream, sockopt::PeerCredentials)?;
    let own = geteuid();
    if !own.is_root() && owner.uid() != own.as_raw() {
        return Ok(Contact::Forbidden);
    }
    Ok(Contact::Query(Query {
        stream: stream.into(),
        pid: u32::try_from(owner.pid()).unwrap_or(0),
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
            response: Vec::new(),
            has_ended: false,
        }
    }

    /// Whether the answer has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The number of bytes that are kept.
    pub(super) fn response_len(&self) -> usize {
        self.response.len()
    }
}
