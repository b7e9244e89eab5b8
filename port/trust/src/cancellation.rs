//! Cancellation of threads (`pthread_cancel`).
//!
//! A thread that is cancelled unwinds its stack from the first cancellation point that it reaches,
//! and many system calls are one. Rust code must not be unwound in this way: locks would stay locked,
//! and a `catch_unwind` ends the process. So each C function of a library defers cancellation while its
//! body runs, and blocks in the kernel outside of its body.

use std::ffi::c_int;
use std::ptr::null_mut;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Defers the cancellation of the calling thread until it is dropped. May be nested.
#[derive(Debug)]
pub struct Deferred {
    before: c_int,
}

impl Deferred {
    /// Defers it from now on.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PTHREAD_CANCEL_ENABLE: c_int = 0;

    /// Sets the calling thread's state. Returns the state before.
    fn set(state: c_int) -> c_int {
        let mut before = -1;
        // SAFETY: the state is a valid one, and `before` is writable.
        unsafe { pthread_setcancelstate(state, &raw mut before) };
        before
    }

    /// The calling thread's state, which stays as it is.
    fn state() -> c_int {
        let found = set(PTHREAD_CANCEL_DISABLE);
        set(found);
        found
    }

    #[test]
    fn cancellation_waits_until_the_outermost_call_has_ended() {
        assert_eq!(state(), PTHREAD_CANCEL_ENABLE);
        let outer = Deferred::new();
        let inner = Deferred::new();
        // 1 is glibc's and musl's number.
        assert_eq!(state(), 1);
        drop(inner);
        assert_eq!(state(), 1);
        drop(outer);
        assert_eq!(state(), PTHREAD_CANCEL_ENABLE);
    }
}
