//! Marks threads while they run librdmacm, and those that it starts. Descriptors that they create are
//! the library's, and their calls go to the kernel.

use crate::real::{self, Start};
use libc::c_ulong;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Marks this thread as running librdmacm until dropped.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Whether this thread runs librdmacm.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Runs a call in which librdmacm may sleep. A signal handler that interrupts it is the program's, and so is a
/// child that the handler forks.
pub(crate) fn sleep<T>(call: impl FnOnce() -> T) -> T {
    let _outside = Outside(DEPTH.replace(0));
    call()
}

/// The depth to go back to, also if the thread is cancelled.
struct Outside(u32);

impl Drop for Outside {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

struct Begin {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn begin(begin: *mut c_void) -> *mut c_void {
    // SAFETY: `create` boxed it for this thread alone.
    let begin = unsafe { Box::from_raw(begin.cast::<Begin>()) };
    // Never dropped: the thread may exit without returning.
    std::mem::forget(Inside::enter());
    let Begin { start, argument } = *begin;
    start(argument)
}

/// `pthread_create`.
///
/// # Safety
/// As for this function.
pub(crate) unsafe fn create(
    thread: *mut c_ulong,
    attributes: *const c_void,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !is_inside() {
        // SAFETY: the caller promises what the function asks for.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    let passed = Box::into_raw(Box::new(Begin { start, argument }));
    // SAFETY: as above.
    let result = unsafe { real::pthread_create(thread, attributes, begin, passed.cast()) };
    if result != 0 {
        // SAFETY: no thread was started.
        drop(unsafe { Box::from_raw(passed) });
    }
    result
}
