//! Functions that wait for an event. The wait is a cancellation point, as with rdma-core: nothing is
//! locked meanwhile, and no value has to be dropped.

use crate::guard;
use nix::errno::Errno;
use std::ffi::{c_int, c_short, c_ulong};
use std::os::fd::RawFd;

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

/// What a call that may wait has found.
pub(crate) enum Found<T> {
    /// What it waits for is there.
    Now(T),
    /// It will be there when this descriptor is readable.
    WhenReadable(RawFd),
}

/// A descriptor that is never readable, for a thread that waits at what is destroyed meanwhile. In
/// rdma-core, such a thread stays in the kernel. Programs rely on it: rping destroys its channel and
/// returns from `main`, while a thread to which every error is fatal waits at the channel.
pub(crate) const NEVER: RawFd = -1;

/// For functions that wait, and return 0, or -1 with `errno` set. Calls `attempt` until it finds
/// something. Between two attempts, the calling thread waits, and can be cancelled. The argument of
/// `attempt` says whether it has waited.
///
/// `attempt` must not have to be dropped.
pub(crate) fn until_found(
    mut attempt: impl FnMut(bool) -> Result<Found<()>, Errno> + Copy,
) -> c_int {
    let mut has_waited = false;
    loop {
        let mut waits_for = None;
        let result = guard::minus_one(|| {
            if let Found::WhenReadable(fd) = attempt(has_waited)? {
                waits_for = Some(fd);
            }
            Ok(())
        });
        let Some(fd) = waits_for else {
            return result;
        };
        has_waited = true;
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
