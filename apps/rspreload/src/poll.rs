//! `poll` and `ppoll` for poll sets that contain sockets of this library.

use crate::clock::Until;
use crate::errno::Outcome;
use crate::signals::Mask;
use crate::socket::{Phase, Socket};
use crate::{claim, connect, poll_set, rdmacm, ready};
use libc::pollfd;
use std::ffi::c_int;
use std::sync::Arc;

/// Waits for events and returns the number of ready descriptors.
pub(crate) fn wait(fds: &mut [pollfd], until: Until, mask: Option<&Mask>) -> Outcome<c_int> {
    loop {
        let mut plan = Plan::new(fds, mask);
        let limit = until.min(plan.attempts);
        rdmacm::poll(&mut plan.entries, limit.left_milliseconds())?;
        if let (Some(mask), true) = (mask, plan.is_signalled()) {
            mask.deliver()?;
        }
        let count = plan.report(fds);
        if count > 0 || until.is_over() {
            return Ok(count);
        }
    }
}

/// The source of an entry passed to `rpoll`.
enum Source {
    /// The program's descriptor at this index, polled by the kernel.
    Kernel(usize),
    /// A connection or listener over RDMA, for the program's descriptor at this index.
    Rdma(usize, Arc<Socket>),
    /// A connection attempt, which is checked before the next wait.
    Attempt,
    /// The signalfd of the mask.
    Signal,
}

struct Plan {
    entries: Vec<pollfd>,
    sources: Vec<Source>,
    /// When the first connection attempt times out.
    attempts: Until,
}

impl Plan {
    fn new(fds: &[pollfd], mask: Option<&Mask>) -> Self {
        let mut plan = Self {
            entries: Vec::with_capacity(fds.len() + 2),
            sources: Vec::with_capacity(fds.len() + 2),
            attempts: Until::NEVER,
        };
        for (index, fd) in fds.iter().enumerate() {
            plan.add(index, *fd);
        }
        if let Some(signalfd) = mask.and_then(Mask::fd) {
            plan.push(signalfd, libc::POLLIN, Source::Signal);
        }
        plan
    }

    fn add(&mut self, index: usize, fd: pollfd) {
        let socket = claim::resolve_for_wait(fd.fd);
        let Some(socket) = socket.filter(|socket| socket.phase() != Phase::Fresh) else {
            return self.push(fd.fd, fd.events, Source::Kernel(index));
        };
        let rs = socket.rs();
        match socket.phase() {
            Phase::Connecting => {
                let attempt = connect::attempt_until(&socket).unwrap_or(Until::NEVER);
                self.attempts = self.attempts.min(attempt);
                self.push(rs, libc::POLLOUT, Source::Attempt);
            }
            Phase::Listening => {
                self.push(fd.fd, fd.events, Source::Kernel(index));
                let events = ready::request(fd.events) & libc::POLLIN;
                self.push(rs, events, Source::Rdma(index, socket));
            }
            _ => self.push(rs, ready::request(fd.events), Source::Rdma(index, socket)),
        }
    }

    fn push(&mut self, fd: c_int, events: i16, source: Source) {
        self.entries.push(poll_set::entry(fd, events));
        self.sources.push(source);
    }

    fn is_signalled(&self) -> bool {
        let mut all = self.entries.iter().zip(&self.sources);
        all.any(|(entry, source)| entry.revents != 0 && matches!(source, Source::Signal))
    }

    /// Fills in `revents` and counts the ready descriptors.
    fn report(&self, fds: &mut [pollfd]) -> c_int {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
        for (entry, source) in self.entries.iter().zip(&self.sources) {
            match source {
                Source::Kernel(index) => fds[*index].revents |= entry.revents,
                Source::Rdma(index, socket) => {
                    let fd = &mut fds[*index];
                    fd.revents |= ready::report(socket.rs(), fd.events, entry.revents);
                }
                Source::Attempt | Source::Signal => {}
            }
        }
        let ready = fds.iter().filter(|fd| fd.revents != 0);
        ready.count() as c_int
    }
}
