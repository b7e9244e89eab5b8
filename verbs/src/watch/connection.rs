//! A watcher's connection. Nothing here blocks: what can't be read or written now is tried again
//! when the socket is ready, and a slow watcher is cut off.

use super::answer::Answer;
use super::answers::Answers;
use super::http;
use nix::poll::PollFlags;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The time that a watcher may take for its request, and then to read the answer.
const ASKING: Duration = Duration::from_secs(2);
const TAKING: Duration = Duration::from_secs(10);

/// A socket.
pub(super) enum Stream {
    /// From `roce top`, which sends nothing and gets a snapshot.
    Local(UnixStream),
    /// From a program that speaks HTTP.
    Http(TcpStream),
}

pub(super) struct Connection {
    stream: Stream,
    stage: Stage,
    until: Instant,
}

enum Stage {
    /// The part of the request that has been read.
    Reading(Vec<u8>),
    Writing(Answer),
}

impl Connection {
    pub(super) fn new(stream: Stream, now: Instant, answers: &mut Answers<'_>) -> Self {
        let (stage, patience) = match stream {
            Stream::Local(_) => {
                let answer = Answer::new(String::new(), answers.json(now));
                (Stage::Writing(answer), TAKING)
            }
            Stream::Http(_) => (Stage::Reading(Vec::new()), ASKING),
        };
        Self {
            stream,
            stage,
            until: now + patience,
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.stream, Stream::Local(_))
    }

    /// When the connection is cut off.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// The event that the connection waits for.
    pub(super) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Reading(_) => PollFlags::POLLIN,
            Stage::Writing(_) => PollFlags::POLLOUT,
        }
    }

    /// Reads and writes as much as it can now. Returns whether there is more to do.
    pub(super) fn go_on(&mut self, now: Instant, answers: &mut Answers<'_>) -> bool {
        if now >= self.until {
            return false;
        }
        match self.step(now, answers) {
            Ok(more) => more,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, now: Instant, answers: &mut Answers<'_>) -> io::Result<bool> {
        loop {
            match &mut self.stage {
                Stage::Reading(request) => {
                    let mut piece = [0; 1024];
                    let count = self.stream.read(&mut piece)?;
                    request.extend_from_slice(&piece[..count]);
                    if let Some(wanted) = http::wanted(request, count == 0) {
                        self.stage = Stage::Writing(http::answer(wanted, || answers.text(now)));
                        self.until = now + TAKING;
                    }
                }
                Stage::Writing(answer) => {
                    if answer.rest().is_empty() {
                        return Ok(false);
                    }
                    let count = self.stream.write(answer.rest())?;
                    if count == 0 {
                        return Ok(false);
                    }
                    answer.sent += count;
                }
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Local(stream) => stream.as_fd(),
            Stream::Http(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Local(stream) => stream.read(into),
            Self::Http(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(stream) => stream.write(bytes),
            Self::Http(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
