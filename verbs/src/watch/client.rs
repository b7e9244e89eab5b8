//! Asks all processes of this host for a snapshot of their devices.
//!
//! The answers are not trusted: their total time and memory are bounded. Processes of other users
//! are not asked, unless the caller is root.

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

/// The maximum number of processes that are asked, and of bytes in all their answers together.
const MOST_PROCESSES: usize = 512;
const MOST_BYTES: usize = 256 << 20;

/// The processes of this network namespace that have a device open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// The snapshots of the processes that answered, by process ID.
    pub snapshots: Vec<Snapshot>,
    /// The number of processes of other users, which only root may ask.
    pub forbidden: usize,
    /// The number of processes that gave no valid answer in time. They are stopped, or run another
    /// version.
    pub silent: usize,
}

/// Asks all processes that have a device open in this network namespace, and waits at most
/// `patience` for their answers.
///
/// # Errors
/// If the kernel's list of sockets can't be read.
pub fn watch_processes(patience: Duration) -> io::Result<Processes> {
    let until = Instant::now() + patience;
    let mut found = Processes::default();
    let mut asked = Vec::new();
    for name in names::all()?.iter().take(MOST_PROCESSES) {
        match ask(name) {
            Ok(Asked::Answers(question)) => asked.push(question),
            Ok(Asked::Forbidden) => found.forbidden += 1,
            // The process has ended meanwhile.
            Err(Errno::ECONNREFUSED) => {}
            Err(_) => found.silent += 1,
        }
    }
    let mut room = MOST_BYTES;
    while asked.iter().any(|one| !one.ended) && wait(&asked, until) {
        for one in asked.iter_mut().filter(|one| !one.ended) {
            one.listen(&mut room);
        }
    }
    for one in asked {
        match one.into_snapshot() {
            Some(snapshot) => found.snapshots.push(snapshot),
            None => found.silent += 1,
        }
    }
    found.snapshots.sort_by_key(|snapshot| snapshot.pid);
    Ok(found)
}

enum Asked {
    Answers(Question),
    Forbidden,
}

/// A process that has been asked.
struct Question {
    stream: File,
    /// Its ID, according to the kernel; 0 if its PID namespace is not visible from here.
    pid: u32,
    answer: Vec<u8>,
    ended: bool,
}

fn ask(name: &str) -> Result<Asked, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let stream: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(
        stream.as_raw_fd(),
        &UnixAddr::new_abstract(name.as_bytes())?,
    )?;
    let owner = getsockopt(&stream, sockopt::PeerCredentials)?;
    let own = geteuid();
    if !own.is_root() && owner.uid() != own.as_raw() {
        return Ok(Asked::Forbidden);
    }
    Ok(Asked::Answers(Question {
        stream: stream.into(),
        pid: u32::try_from(owner.pid()).unwrap_or(0),
        answer: Vec::new(),
        ended: false,
    }))
}

/// Waits for an answer. Returns `false` if the time is over.
fn wait(asked: &[Question], until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let open = asked.iter().filter(|one| !one.ended);
    let mut polled: Vec<_> = open
        .map(|one| PollFd::new(one.stream.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut polled, timeout);
    true
}

impl Question {
    /// Reads what has arrived, as long as there is room for it.
    fn listen(&mut self, room: &mut usize) {
        let mut piece = [0; 64 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(count) if count > 0 && count <= *room => {
                    *room -= count;
                    self.answer.extend_from_slice(&piece[..count]);
                }
                Ok(count) => {
                    // An answer that is too long is discarded.
                    if count > 0 {
                        self.answer.clear();
                    }
                    self.ended = true;
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    fn into_snapshot(self) -> Option<Snapshot> {
        let mut snapshot: Snapshot = serde_json::from_slice(&self.answer).ok()?;
        if !self.ended {
            return None;
        }
        if self.pid != 0 {
            snapshot.pid = self.pid;
        }
        Some(snapshot)
    }
}
