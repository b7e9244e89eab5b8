//! The kernel's `poll`.

use crate::error::Error;
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::ptr;
use std::time::Duration;

/// A poll entry that waits until `fd` is readable.
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Calls the kernel's `poll` for at most `limit`; `None` waits forever.
pub(crate) fn system_poll(
    fds: &mut [libc::pollfd],
    limit: Option<Duration>,
) -> Result<usize, Error> {
    let limit = limit.map(|left| libc::timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has this number of elements, the limit is NULL or valid, and NULL leaves the
    // signal mask as it is.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), count, limit, ptr::null()) };
    usize::try_from(result).map_err(|_| Errno::last().into())
}
