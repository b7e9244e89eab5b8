//! The error number of this thread, which belongs to the program.

use std::ffi::c_int;

/// Runs `work` without a visible change of `errno`.
pub(crate) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the address is that of this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// The error of the last call that failed.
pub(crate) fn get() -> c_int {
    // SAFETY: the address is that of this thread's errno.
    unsafe { *libc::__errno_location() }
}
