//! Descriptors of librdmacm and of this library in the program's table.
//!
//! They get high numbers, so that the program's descriptors keep their low ones. The program cannot
//! close them: `closefrom` and loops over all descriptors skip them.

use crate::kinds::{self, Kind};
use crate::real;
use std::ffi::{c_int, c_long};

/// Upper bound of the first number for hidden descriptors.
const MAX_BASE: u64 = 8192;

/// Moves a new descriptor to a high number and hides it.
pub(crate) fn hide(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    let moved = raise(fd);
    kinds::set(moved, Kind::Hidden);
    moved
}

/// Closes a hidden descriptor.
pub(crate) fn close(fd: c_int) {
    kinds::set(fd, Kind::Other);
    // SAFETY: the descriptor is this library's.
    unsafe { real::close(fd) };
}

fn raise(fd: c_int) -> c_int {
    let base = base();
    if i64::from(fd) >= base {
        return fd;
    }
    // SAFETY: only numbers are passed.
    unsafe {
        let flags = real::fcntl(fd, libc::F_GETFD, 0);
        let command = match flags & libc::FD_CLOEXEC {
            0 => libc::F_DUPFD,
            _ => libc::F_DUPFD_CLOEXEC,
        };
        let moved = real::fcntl(fd, command, base as c_long);
        if moved < 0 {
            return fd;
        }
        real::close(fd);
        moved
    }
}

/// The first number for hidden descriptors.
fn base() -> i64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the limits.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (limit.rlim_cur / 2).min(MAX_BASE) as i64
}
