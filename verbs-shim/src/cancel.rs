//! Cancellation of threads (`pthread_cancel`).
//!
//! A thread that is cancelled unwinds its stack from the first cancellation point that it reaches,
//! and many system calls are one. Rust code must not be unwound in this way: locks would stay locked,
//! and a `catch_unwind` ends the process. So each function defers cancellation while its body runs.
//! The functions that wait for an event wait outside of their bodies, where nothing is locked and no
//! value has to be dropped. The wait is a cancellation point, as with rdma-core.

use crate::guard;
use nix::errno::Errno;
use std::ffi::{c_int, c_short, c_ulong};
use std::os::fd::RawFd;
use std::ptr::null_mut;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

// The C libraries declare it as a cancellation point, so it may unwind.
unsafe extern "C-unwind" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

/// `struct pollfd`.
#[repr(C)]
struct PollFd {
    fd: RawFd,
    events: c_short,
    revents: c_short,
}

/// Defers the cancellation of the calling thread until it is dropped. May be nested.
pub(crate) struct Deferred {
    before: c_int,
}

impl Deferred {
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: the state is a valid one, and `before` is writable.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        // SAFETY: the state is the one that the first call returned, and the old state is not asked
        // for.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}

/// What a call that may wait has found.
pub(crate) enum Found<T> {
    /// What it waits for is there.
    Now(T),
    /// It will be there when this descriptor is readable.
    WhenReadable(RawFd),
}

/// For functions that wait, and return 0, or -1 with `errno` set. Calls `attempt` until it finds
/// something. Between two attempts, the calling thread waits, and can be cancelled.
///
/// `attempt` must not have to be dropped.
pub(crate) fn waiting(mut attempt: impl FnMut() -> Result<Found<()>, Errno> + Copy) -> c_int {
    loop {
        let mut waits_for = None;
        let result = guard::minus_one(|| {
            if let Found::WhenReadable(fd) = attempt()? {
                waits_for = Some(fd);
            }
            Ok(())
        });
        let Some(fd) = waits_for else {
            return result;
        };
        let mut fds = PollFd {
            fd,
            events: nix::libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `fds` is one `pollfd`. If the thread is cancelled, the call unwinds the stack; none
        // of the values on it has to be dropped.
        if unsafe { poll(&raw mut fds, 1, -1) } < 0 {
            return -1;
        }
    }
}
