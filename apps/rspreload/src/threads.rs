//! Marks the threads that librdmacm starts.

use crate::inside::{Inside, is_inside};
use crate::real::{self, Start};
use libc::c_ulong;
use std::ffi::{c_int, c_void};

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
