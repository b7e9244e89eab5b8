//! `rpoll` and `rselect`.

use super::OrErrno;
use crate::prelude::*;
use roce_rsockets::{PollFd, poll as poll_sockets};
use std::ffi::c_ulong;
use std::time::Duration;

pub(crate) extern "C" fn poll(fds: Out<PollFd>, count: c_ulong, timeout_ms: c_int) -> c_int {
    guard::value("rpoll", -1, || {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        let fds = fds.slice(count).map_err(|_| Errno::EFAULT)?;
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let ready = poll_sockets(fds, limit).or_errno()?;
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    })
}

const SET_LEN: usize = libc::FD_SETSIZE;

pub(crate) extern "C" fn select(
    count: c_int,
    reads: Out<libc::fd_set>,
    writes: Out<libc::fd_set>,
    exceptions: Out<libc::fd_set>,
    timeout: In<libc::timeval>,
) -> c_int {
    guard::value("rselect", -1, || {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        let wanted = [
            (reads, libc::POLLIN),
            (writes, libc::POLLOUT),
            (exceptions, libc::POLLPRI),
        ];
        let mut fds = Vec::new();
        for fd in 0..count.min(SET_LEN) as c_int {
            let mut events = 0;
            for (set, event) in wanted {
                if contains(set, fd)? {
                    events |= event;
                }
            }
            if events != 0 {
                let revents = 0;
                fds.push(PollFd {
                    fd,
                    events,
                    revents,
                });
            }
        }
        poll_sockets(&mut fds, limit(timeout)?).or_errno()?;
        if fds.iter().any(|each| each.revents & libc::POLLNVAL != 0) {
            return Err(Errno::EBADF);
        }
        let answers = [
            (reads, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
            (writes, libc::POLLOUT | libc::POLLERR),
            (exceptions, libc::POLLPRI),
        ];
        let mut bits = 0;
        for ((set, answer), (_, event)) in answers.into_iter().zip(wanted) {
            if set.is_null() {
                continue;
            }
            let set = set.get()?;
            // SAFETY: the set is the program's, and the macro writes within it.
            unsafe { libc::FD_ZERO(set) };
            for each in &fds {
                if each.events & event != 0 && each.revents & answer != 0 {
                    // SAFETY: the descriptor is below FD_SETSIZE, as it came from a set.
                    unsafe { libc::FD_SET(each.fd, set) };
                    bits += 1;
                }
            }
        }
        Ok(bits)
    })
}

fn contains(set: Out<libc::fd_set>, fd: c_int) -> Result<bool, Errno> {
    if set.is_null() {
        return Ok(false);
    }
    let set = set.get()?;
    // SAFETY: the descriptor is below FD_SETSIZE.
    Ok(unsafe { libc::FD_ISSET(fd, set) })
}

/// The time of a call; `None` means for ever.
fn limit(timeout: In<libc::timeval>) -> Result<Option<Duration>, Errno> {
    let Ok(time) = timeout.read() else {
        return Ok(None);
    };
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::EINVAL)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::EINVAL)?;
    Ok(Some(
        Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)),
    ))
}
