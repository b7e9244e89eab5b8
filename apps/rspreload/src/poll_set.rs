//! Entries of a poll set.

use libc::pollfd;
use std::ffi::c_int;

/// An entry that asks for `events`.
pub(crate) fn entry(fd: c_int, events: i16) -> pollfd {
    pollfd {
        fd,
        events,
        revents: 0,
    }
}
