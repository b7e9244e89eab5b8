//! Cancellation of threads (`pthread_cancel`).
//!
//! A thread that is cancelled unwinds its stack from the first cancellation point that it reaches,
//! and many system calls are one. Rust code must not be unwound in this way: locks would stay locked,
//! and a `catch_unwind` ends the process. So each function defers cancellation while its body runs.
//! The functions that wait for an event wait outside of their bodies (`wait`).

use std::ffi::c_int;
use std::ptr::null_mut;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
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
