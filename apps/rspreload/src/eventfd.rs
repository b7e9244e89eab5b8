//! Eventfds that wake up threads of this library.

use crate::errno::{Outcome, check};
use crate::{hidden, real};
use std::ffi::c_int;

/// Creates a hidden, non-blocking eventfd.
pub(crate) fn create() -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let fd = unsafe { real::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    check(hidden::hide(fd))
}

/// Makes it readable.
pub(crate) fn signal(fd: c_int) {
    let one = 1_u64;
    // SAFETY: the value can be read. A counter that is full is readable, too.
    unsafe { real::write(fd, (&raw const one).cast(), size_of::<u64>()) };
}

/// Makes it no longer readable.
pub(crate) fn clear(fd: c_int) {
    let mut count = 0_u64;
    // SAFETY: there is room for the count. The descriptor does not block.
    unsafe { real::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}
