//! `epoll_ctl` and `epoll_wait`.

use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::interest::{Epoll, InKernel, KNOCK, Member, State};
use crate::signals::Mask;
use crate::socket::{Phase, Socket};
use crate::{claim, connect, rdmacm, ready, real, table};
use libc::{epoll_event, pollfd, sigset_t};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// The events that a read lets be reported again, with `EPOLLET`.
const OF_READS: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLRDHUP) as u32;

/// The events of a connection that has ended, whichever were asked for.
const OVER: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// The events that an incomplete write lets be reported again.
const OF_WRITES: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// `epoll_ctl` for a socket of this library. `None` if it has become the kernel's.
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
    let socket = claim::waited_for(fd)?;
    let Some(event) = event else {
        return Some(Err(Errno(libc::EFAULT)));
    };
    match operation {
        libc::EPOLL_CTL_ADD => Some(interest.add(epoll, fd, socket, event)),
        libc::EPOLL_CTL_MOD => Some(interest.modify(epoll, fd, event)),
        _ => Some(Err(Errno(libc::EINVAL))),
    }
}

/// The result of a step of a wait.
pub(crate) enum Step<'a> {
    /// Events.
    Found(usize),
    /// The caller waits in the kernel, and asks [`found_in_kernel`] about what it finds.
    InKernel(InKernel<'a>),
}

/// Waits for events, and writes them to `to`.
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

/// What of the events that the kernel has found is the program's. `None` if the wait goes on.
pub(crate) fn found_in_kernel(
    interest: &Epoll,
    events: &mut [epoll_event],
    count: usize,
) -> Option<usize> {
    let (count, knocked) = without_knock(events, count);
    if knocked {
        interest.pass_on();
    }
    (count > 0 || !knocked).then_some(count)
}

/// Takes connection attempts further, and a forked child takes over from its parent.
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
        claim::waited_for(fd);
    }
}

/// The events that the kernel has now.
fn kernel(epoll: c_int, to: &mut [epoll_event]) -> Outcome<usize> {
    let room = to.len() as c_int;
    // SAFETY: there is room for this many events.
    let found = unsafe { real::epoll_wait(epoll, to.as_mut_ptr(), room, 0) };
    check(found).map(|count| count as usize)
}

/// Removes the event of this library itself from what the kernel found.
fn without_knock(events: &mut [epoll_event], count: usize) -> (usize, bool) {
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

/// A socket to ask for.
struct Asked {
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
        let mut entries = vec![entry(epoll, libc::POLLIN), entry(changed, libc::POLLIN)];
        entries.push(entry(mask.and_then(Mask::fd).unwrap_or(-1), libc::POLLIN));
        let fixed = entries.len();
        let (asked, attempts, masked) = ask(&mut state, &mut entries);
        drop(state);
        let polled = rdmacm::poll(&mut entries, until.min(attempts).left_milliseconds());
        drop(masked);
        interest.state().stop_waiting(changed);
        polled?;
        if let (Some(mask), 1..) = (mask, entries[2].revents) {
            mask.deliver()?;
        }
        let said: Vec<i16> = entries[fixed..].iter().map(|entry| entry.revents).collect();
        let count = collect(epoll, interest, to, entries[0].revents != 0, &asked, &said)?;
        if count > 0 || until.is_over() {
            return Ok(count);
        }
    }
}

fn entry(fd: c_int, events: i16) -> pollfd {
    pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Sockets of which a thread leaves out events while it waits.
#[derive(Default)]
struct Masked(Vec<Arc<Socket>>);

impl Masked {
    /// Called before the counts of calls are looked at: the calls after that wake up the thread.
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

/// Counts a call of the program, after it: with `EPOLLET`, events of the socket may be reported again.
/// Threads that have left them out wake up.
pub(crate) fn called(socket: &Socket, count: &AtomicU32) {
    count.fetch_add(1, Ordering::SeqCst);
    if socket.masked.load(Ordering::SeqCst) > 0 {
        for (_, interest) in table::epolls() {
            interest.wake_waiting();
        }
    }
}

/// Adds an entry for each socket of which an event may be reported.
fn ask(state: &mut State, entries: &mut Vec<pollfd>) -> (Vec<Asked>, Until, Masked) {
    let mut masked = Masked::default();
    let mut attempts = Until::NEVER;
    let mut asked = Vec::with_capacity(state.members.len());
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
                member.renew(reads, socket.full.load(Ordering::SeqCst));
                if member.reported & OVER != 0 {
                    continue;
                }
                ready::request((member.events & !member.reported) as i16)
            }
        };
        entries.push(entry(socket.rs(), events));
        asked.push(Asked { fd: *fd, socket });
    }
    (asked, attempts, masked)
}

impl Member {
    /// With `EPOLLET`: an event that was reported is reported again once the program has called
    /// the function that it is about.
    fn renew(&mut self, reads: u32, full: u32) {
        if self.reads != reads {
            self.reported &= !(OF_READS | OVER);
        }
        if self.full != full {
            self.reported &= !OF_WRITES;
        }
        (self.reads, self.full) = (reads, full);
    }

    /// The part of `found` that is an event for the program. It is then reported.
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

/// Writes events, of the kernel's descriptors and of sockets in turn. The first socket is another one
/// each time.
fn collect(
    epoll: c_int,
    interest: &Epoll,
    to: &mut [epoll_event],
    kernel_is_ready: bool,
    asked: &[Asked],
    said: &[i16],
) -> Outcome<usize> {
    let turn = interest.turn.fetch_add(1, Ordering::Relaxed) as usize;
    let has_some = said.iter().any(|said| *said != 0);
    let mut count = 0;
    if kernel_is_ready && (!has_some || to.len() > 1 || turn.is_multiple_of(2)) {
        let room = to.len() - usize::from(has_some && to.len() > 1);
        let found = kernel(epoll, &mut to[..room])?;
        count = without_knock(to, found).0;
    }
    let mut state = interest.state();
    for step in 0..asked.len() {
        let index = (turn + step) % asked.len();
        if count == to.len() {
            break;
        }
        if said[index] == 0 {
            continue;
        }
        if let Some(event) = event(&mut state, &asked[index], said[index]) {
            to[count] = event;
            count += 1;
        }
    }
    Ok(count)
}

fn event(state: &mut State, asked: &Asked, said: i16) -> Option<epoll_event> {
    let member = state.members.get_mut(&asked.fd)?;
    let is_settled = matches!(asked.socket.phase(), Phase::Connected | Phase::Listening);
    if !Arc::ptr_eq(&member.socket, &asked.socket) || !is_settled {
        return None;
    }
    let found = ready::report(asked.socket.rs(), member.events as i16, said);
    let events = member.take(u32::from(found.cast_unsigned()));
    (events != 0).then_some(epoll_event {
        events,
        u64: member.data,
    })
}
