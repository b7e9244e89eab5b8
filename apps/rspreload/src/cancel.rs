//! Cancellation of threads (`pthread_cancel`).
//!
//! A cancelled thread unwinds its stack from the first cancellation point it reaches, and many system
//! calls are cancellation points. A `catch_unwind` on the way would abort the process, and locks would
//! stay locked. So the body of each C function defers cancellation; blocking in the kernel happens
//! outside the body.

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
        // SAFETY: the first call returned this state; NULL discards the old one.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}

/// Unwinds the calling thread if it was cancelled. Functions that POSIX makes cancellation points call
/// this first.
pub(crate) fn test() {
    pthread_testcancel();
}
