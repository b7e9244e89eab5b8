//! `epoll_ctl` and `epoll_wait`.

use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::interest::{Epoll, InKernel, KNOCK, Member, State};
use crate::signals::Mask;
use crate::socket::{Phase, Socket};
use crate::{claim, connect, poll_set, rdmacm, ready, real, table};
use libc::{epoll_event, pollfd, sigset_t};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// With `EPOLLET`: the events that a read rearms.
const OF_READS: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLRDHUP) as u32;

/// The events of a closed connection, reported even if not requested.
const OVER: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// With `EPOLLET`: the events that an incomplete write rearms.
const OF_WRITES: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// `epoll_ctl` for a socket of this library. `None` if the kernel answers for it now.
pub(crate) fn control(
    epoll: c_int,
    interest: &Epoll,
    operation: c_int,
    fd: c_int,
    event: Option<epoll_event>,
) -> Option<Outcome<()>> {
    if operation == libc::EPOLL_CTL_DEL {
        return Some(interest.delete(epoll, fd));
    }
    let socket = claim::resolve_for_wait(fd)?;
    let Some(event) = event else {
        return Some(Err(Errno(libc::EFAULT)));
    };
    match operation {
        libc::EPOLL_CTL_ADD => Some(interest.add(epoll, fd, socket, event)),
        libc::EPOLL_CTL_MOD => Some(interest.modify(epoll, fd, event)),
        _ => Some(Err(Errno(libc::EINVAL))),
    }
}

/// The result of one step of a wait.
pub(crate) enum Step<'a> {
    /// The number of events.
    Found(usize),
    /// The caller must wait in the kernel and pass the events to [`filter_kernel_events`].
    InKernel(InKernel<'a>),
}

/// Waits for events and writes them to `to`.
///
/// # Safety
/// The mask is NULL or can be read.
pub(crate) unsafe fn wait<'a>(
    epoll: c_int,
    interest: &'a Epoll,
    to: &mut [epoll_event],
    until: Until,
    mask: *const sigset_t,
) -> Outcome<Step<'a>> {
    progress(interest);
    let state = interest.state();
    if !state.members.values().any(Member::is_ours) {
        return Ok(Step::InKernel(interest.enter_kernel()));
    }
    drop(state);
    // SAFETY: the caller promises the mask.
    let mask = unsafe { Mask::new(mask) }?;
    wait_for_both(epoll, interest, to, until, mask.as_ref()).map(Step::Found)
}

/// Keeps the events from the kernel that belong to the program. Returns `None` if the wait goes on.
pub(crate) fn filter_kernel_events(
    interest: &Epoll,
    events: &mut [epoll_event],
    count: usize,
) -> Option<usize> {
    let (count, knocked) = remove_knock(events, count);
    if knocked {
        interest.wake_next_in_kernel();
    }
    (count > 0 || !knocked).then_some(count)
}

/// Advances connection attempts, and takes over a parent's sockets in a forked child.
fn progress(interest: &Epoll) {
    let unsettled: Vec<c_int> = {
        let state = interest.state();
        let all = state.members.iter().filter(|(_, member)| {
            let phase = member.socket.phase();
            matches!(
                phase,
                Phase::Connecting | Phase::OfParent | Phase::ListenerOfParent
            )
        });
        all.map(|(fd, _)| *fd).collect()
    };
    for fd in unsettled {
        claim::resolve_for_wait(fd);
    }
}

/// Collects the kernel's pending events.
fn poll_kernel(epoll: c_int, to: &mut [epoll_event]) -> Outcome<usize> {
    let room = to.len() as c_int;
    // SAFETY: there is room for this many events.
    let found = unsafe { real::epoll_wait(epoll, to.as_mut_ptr(), room, 0) };
    check(found).map(|count| count as usize)
}

/// Removes this library's own event from the kernel's. Returns the remaining count, and whether there
/// was one.
fn remove_knock(events: &mut [epoll_event], count: usize) -> (usize, bool) {
    let mut kept = 0;
    for index in 0..count {
        let event = events[index];
        if event.u64 != KNOCK {
            events[kept] = event;
            kept += 1;
        }
    }
    (kept, kept < count)
}

/// A socket in the poll set.
struct Polled {
    fd: c_int,
    socket: Arc<Socket>,
}

fn wait_for_both(
    epoll: c_int,
    interest: &Epoll,
    to: &mut [epoll_event],
    until: Until,
    mask: Option<&Mask>,
) -> Outcome<usize> {
    loop {
        progress(interest);
        let mut state = interest.state();
        let changed = state.start_waiting()?;
        let signals = mask.and_then(Mask::fd).unwrap_or(-1);
        let mut entries = [epoll, changed, signals]
            .map(|fd| poll_set::entry(fd, libc::POLLIN))
            .to_vec();
        let fixed = entries.len();
        let (polled_sockets, attempts, masked) = build_poll_set(&mut state, &mut entries);
        drop(state);
        let polled = rdmacm::poll(&mut entries, until.min(attempts).left_milliseconds());
        drop(masked);
        interest.state().stop_waiting(changed);
        polled?;
        if let (Some(mask), 1..) = (mask, entries[2].revents) {
            mask.deliver()?;
        }
        let returned: Vec<i16> = entries[fixed..].iter().map(|entry| entry.revents).collect();
        let count = collect_events(
            epoll,
            interest,
            to,
            entries[0].revents != 0,
            &polled_sockets,
            &returned,
        )?;
        if count > 0 || until.is_over() {
            return Ok(count);
        }
    }
}

/// Sockets that a thread waits on without some of their events.
#[derive(Default)]
struct Masked(Vec<Arc<Socket>>);

impl Masked {
    /// Called before the call counts are read, so that later calls wake up the thread.
    fn add(&mut self, socket: &Arc<Socket>) {
        socket.masked.fetch_add(1, Ordering::SeqCst);
        self.0.push(socket.clone());
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        for socket in &self.0 {
            socket.masked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Counts a call that the program has made. With `EPOLLET`, it rearms events of the socket and wakes up
/// threads that wait without them.
pub(crate) fn count_call(socket: &Socket, count: &AtomicU32) {
    count.fetch_add(1, Ordering::SeqCst);
    if socket.masked.load(Ordering::SeqCst) > 0 {
        for (_, interest) in table::epolls() {
            interest.wake_waiting();
        }
    }
}

/// Adds an entry for each socket that may have an event to report.
fn build_poll_set(state: &mut State, entries: &mut Vec<pollfd>) -> (Vec<Polled>, Until, Masked) {
    let mut masked = Masked::default();
    let mut attempts = Until::NEVER;
    let mut polled_sockets = Vec::with_capacity(state.members.len());
    for (fd, member) in &mut state.members {
        if !member.is_ours() || member.is_disarmed {
            continue;
        }
        let socket = member.socket.clone();
        let events = match connect::attempt_until(&socket) {
            Some(attempt) => {
                attempts = attempts.min(attempt);
                libc::POLLOUT
            }
            None => {
                if member.reported != 0 {
                    masked.add(&socket);
                }
                let reads = socket.reads.load(Ordering::SeqCst);
                member.rearm(reads, socket.full.load(Ordering::SeqCst));
                if member.reported & OVER != 0 {
                    continue;
                }
                ready::request((member.events & !member.reported) as i16)
            }
        };
        entries.push(poll_set::entry(socket.rs(), events));
        polled_sockets.push(Polled { fd: *fd, socket });
    }
    (polled_sockets, attempts, masked)
}

impl Member {
    /// With `EPOLLET`: rearms reported events if the program has read, or filled the send buffer, since.
    fn rearm(&mut self, reads: u32, full: u32) {
        if self.reads != reads {
            self.reported &= !(OF_READS | OVER);
        }
        if self.full != full {
            self.reported &= !OF_WRITES;
        }
        (self.reads, self.full) = (reads, full);
    }

    /// Filters `found` to the events to report now, and marks them as reported.
    fn take(&mut self, found: u32) -> u32 {
        if self.is_disarmed {
            return 0;
        }
        if self.events & ONESHOT != 0 {
            self.is_disarmed = found != 0;
        }
        if self.events & ET == 0 {
            return found;
        }
        let new = found & !self.reported;
        self.reported |= new;
        new
    }
}

/// Writes events of the kernel's descriptors and of sockets. The two take turns if there is room for
/// one only, and each call starts with another socket.
fn collect_events(
    epoll: c_int,
    interest: &Epoll,
    to: &mut [epoll_event],
    kernel_is_ready: bool,
    polled_sockets: &[Polled],
    returned: &[i16],
) -> Outcome<usize> {
    let turn = interest.turn.fetch_add(1, Ordering::Relaxed) as usize;
    let has_some = returned.iter().any(|returned| *returned != 0);
    let mut count = 0;
    if kernel_is_ready && (!has_some || to.len() > 1 || turn.is_multiple_of(2)) {
        let room = to.len() - usize::from(has_some && to.len() > 1);
        let found = poll_kernel(epoll, &mut to[..room])?;
        count = remove_knock(to, found).0;
    }
    let mut state = interest.state();
    for step in 0..polled_sockets.len() {
        let index = (turn + step) % polled_sockets.len();
        if count == to.len() {
            break;
        }
        if returned[index] == 0 {
            continue;
        }
        if let Some(event) = take_event(&mut state, &polled_sockets[index], returned[index]) {
            to[count] = event;
            count += 1;
        }
    }
    Ok(count)
}

fn take_event(state: &mut State, polled_sockets: &Polled, returned: i16) -> Option<epoll_event> {
    let member = state.members.get_mut(&polled_sockets.fd)?;
    let is_settled = matches!(
        polled_sockets.socket.phase(),
        Phase::Connected | Phase::Listening
    );
    if !Arc::ptr_eq(&member.socket, &polled_sockets.socket) || !is_settled {
        return None;
    }
    let found = ready::report(polled_sockets.socket.rs(), member.events as i16, returned);
    let events = member.take(u32::from(found.cast_unsigned()));
    (events != 0).then_some(epoll_event {
        events,
        u64: member.data,
    })
}
