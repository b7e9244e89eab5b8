//! `poll`, `select` and `epoll`.

use super::kind;
use crate::clock::Until;
use crate::epoll::Step;
use crate::errno::{Errno, call, check};
use crate::kinds::Kind;
use crate::select::Sets;
use crate::signals::Mask;
use crate::{cancel, descriptors, epoll, inside, poll, real, select, table};
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use std::ffi::c_int;

replace! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    match read_entries(fds, count) {
        None => inside::sleep(|| real::poll(fds, count, timeout)),
        Some(fds) => run_wait(|| poll::wait(fds, Until::from_milliseconds(timeout), None)),
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        real::__poll_chk(fds, count, timeout, room)
    } else {
        poll(fds, count, timeout)
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    match read_entries(fds, count) {
        None => inside::sleep(|| real::ppoll(fds, count, timeout, mask)),
        Some(fds) => run_wait(|| {
            let until = Until::from_timespec(timeout)?;
            poll::wait(fds, until, Mask::new(mask)?.as_ref())
        }),
    }

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        real::__ppoll_chk(fds, count, timeout, mask, room)
    } else {
        ppoll(fds, count, timeout, mask)
    }

    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *mut timeval) -> c_int; {
        let mut count = count;
        match read_sets(&mut count, [reads, writes, excepts]) {
            None => real::select(count, reads, writes, excepts, timeout),
            Some((sets, entries)) => run_wait(|| {
                let until = Until::from_timeval(timeout)?;
                let result = sets.wait(entries, until, None);
                if let Some(left) = until.left() {
                    // As Linux does.
                    timeout.write(timeval {
                        tv_sec: left.as_secs() as _,
                        tv_usec: left.subsec_micros().into(),
                    });
                }
                result
            }),
        }
    }

    fn pselect(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int; {
        let mut count = count;
        match read_sets(&mut count, [reads, writes, excepts]) {
            None => real::pselect(count, reads, writes, excepts, timeout, mask),
            Some((sets, entries)) => run_wait(|| {
                let until = Until::from_timespec(timeout)?;
                sets.wait(entries, until, Mask::new(mask)?.as_ref())
            }),
        }
    }

    fn epoll_create(size: c_int) -> c_int;
    descriptors::track_epoll(real::epoll_create(size))

    fn epoll_create1(flags: c_int) -> c_int;
    descriptors::track_epoll(real::epoll_create1(flags))

    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int; {
        let real = || real::epoll_ctl(epoll, operation, fd, event);
        if kind(fd) != Kind::Socket {
            return real();
        }
        let Some(interest) = table::epoll(epoll) else {
            return real();
        };
        call(-1, || {
            let event = if event.is_null() { None } else { Some(event.read_unaligned()) };
            match epoll::control(epoll, &interest, operation, fd, event) {
                Some(result) => result.map(|()| 0),
                None => check(real()),
            }
        })
    }

    fn epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    wait_for_epoll(epoll, events, count, Until::from_milliseconds(timeout), std::ptr::null(), || {
        real::epoll_wait(epoll, events, count, timeout)
    })

    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    wait_for_epoll(epoll, events, count, Until::from_milliseconds(timeout), mask, || {
        real::epoll_pwait(epoll, events, count, timeout, mask)
    })

    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int; {
        let real = || real::epoll_pwait2(epoll, events, count, timeout, mask);
        match Until::from_timespec(timeout) {
            Ok(until) => wait_for_epoll(epoll, events, count, until, mask, real),
            Err(_) => real(),
        }
    }
}

/// The program's poll set; `None` if the kernel alone can answer.
unsafe fn read_entries<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if fds.is_null() || count == 0 || count > c_int::MAX as nfds_t {
        return None;
    }
    // SAFETY: the caller promises them.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    fds.iter()
        .any(|fd| kind(fd.fd) == Kind::Socket)
        .then_some(fds)
}

/// The program's `select` sets and their descriptors; `None` if the kernel alone can answer. Clamps
/// `count` to the descriptor table.
unsafe fn read_sets(count: &mut c_int, sets: [*mut fd_set; 3]) -> Option<(Sets, Vec<pollfd>)> {
    if sets.iter().all(|set| set.is_null()) {
        return None;
    }
    *count = call(None, || Ok(select::clamp_to_table(*count)))?;
    // SAFETY: the caller promises them.
    let sets = unsafe { Sets::new(sets, *count) };
    let entries = sets.entries();
    let is_ours = entries.iter().any(|fd| kind(fd.fd) == Kind::Socket);
    is_ours.then_some((sets, entries))
}

/// Runs the body of a blocking function.
fn run_wait(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    cancel::test();
    call(-1, work)
}

/// Runs `epoll_wait` and its variants.
unsafe fn wait_for_epoll(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    until: Until,
    mask: *const sigset_t,
    real: impl Fn() -> c_int,
) -> c_int {
    cancel::test();
    let Some(interest) = table::epoll(epoll) else {
        return real();
    };
    if events.is_null() || count <= 0 {
        return real();
    }
    // SAFETY: the caller promises the room.
    let to = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
    loop {
        // SAFETY: the caller promises the mask.
        let step = call(None, || unsafe {
            epoll::wait(epoll, &interest, to, until, mask).map(Some)
        });
        let waiting = match step {
            None => return -1,
            Some(Step::Found(found)) => return found as c_int,
            Some(Step::InKernel(waiting)) => waiting,
        };
        // SAFETY: the caller promises the room and the mask.
        let found =
            unsafe { real::epoll_pwait(epoll, events, count, until.left_milliseconds(), mask) };
        drop(waiting);
        if found < 0 {
            return found;
        }
        let found = call(None, || {
            Ok(epoll::filter_kernel_events(&interest, to, found as usize))
        });
        if let Some(found) = found {
            return found as c_int;
        }
    }
}
