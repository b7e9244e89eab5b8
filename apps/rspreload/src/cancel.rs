//! Cancellation of threads (`pthread_cancel`).
//!
//! A cancelled thread unwinds its stack from the first cancellation point that it reaches, and many
//! system calls are one. A `catch_unwind` on the way ends the process, and locks would stay locked. So
//! the body of each C function defers cancellation. What waits in the kernel does so outside of it.

use std::ffi::c_int;
use std::ptr::null_mut;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

// A cancelled thread unwinds its stack from here.
unsafe extern "C-unwind" {
    safe fn pthread_testcancel();
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

/// Ends the calling thread if it was cancelled. Called before a function that the standard makes a
/// cancellation point has done anything.
pub(crate) fn point() {
    pthread_testcancel();
}
