//! Wrappers around the body of each C function. They stop panics, defer cancellation, and convert the result to the C
//! return value and `errno`.

use crate::injected;
use crate::log;
use nix::errno::Errno;
use roce_trust::cancellation::Deferred;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of the C function `call`. A panic is a bug in this library: the call fails, and the process goes on.
fn run<T>(call: &'static str, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _deferred = Deferred::new();
    // A function may call others, of which each ends with a reason of its own, or with none.
    let of_caller = log::take_reason();
    // Unwind safety: shared state is behind locks that do not poison, and nothing else outlives the
    // call.
    let result = injected::enter(call)
        .and_then(|_entered| catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno::EIO)));
    log::call_ended(call, result.as_ref().err().copied());
    if let Some(reason) = of_caller {
        log::set_reason(|| reason);
    }
    if let Err(errno) = result {
        errno.set();
    }
    result
}

/// For functions that return 0 or an error number.
pub(crate) fn errno(call: &'static str, work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match run(call, work) {
        Ok(()) => 0,
        Err(errno) => errno as c_int,
    }
}

/// For functions that post a list of requests and return 0 or an error number. `refuse` reports the
/// first request as the one that failed, if a fault was injected into the call.
pub(crate) fn post(
    call: &'static str,
    work: impl FnOnce() -> Result<(), Errno>,
    refuse: impl FnOnce(),
) -> c_int {
    let mut has_begun = false;
    let result = run(call, || {
        has_begun = true;
        work()
    });
    if result.is_err() && !has_begun {
        refuse();
    }
    result.map_or_else(|errno| errno as c_int, |()| 0)
}

/// For functions that return 0, or -1 with `errno` set.
pub(crate) fn minus_one(call: &'static str, work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    run(call, work).map_or(-1, |()| 0)
}

/// For functions that return an object, or NULL with `errno` set.
pub(crate) fn pointer<T>(
    call: &'static str,
    work: impl FnOnce() -> Result<*mut T, Errno>,
) -> *mut T {
    run(call, work).unwrap_or(std::ptr::null_mut())
}

/// For functions that return a value, or `otherwise` with `errno` set.
pub(crate) fn value<T>(
    call: &'static str,
    otherwise: T,
    work: impl FnOnce() -> Result<T, Errno>,
) -> T {
    run(call, work).unwrap_or(otherwise)
}

/// For functions that return nothing.
pub(crate) fn nothing(call: &'static str, work: impl FnOnce() -> Result<(), Errno>) {
    // `errno` is the only way to report the error.
    let _ = run(call, work);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        assert_eq!(
            errno("ibv_test", || panic!("on purpose")),
            Errno::EIO as c_int
        );
        assert_eq!(Errno::last(), Errno::EIO);
        assert_eq!(minus_one("ibv_test", || panic!("on purpose")), -1);
        assert!(pointer::<u8>("ibv_test", || panic!("on purpose")).is_null());
    }

    #[test]
    fn errors_are_told_both_ways() {
        assert_eq!(
            errno("ibv_test", || Err(Errno::EBUSY)),
            Errno::EBUSY as c_int
        );
        assert_eq!(Errno::last(), Errno::EBUSY);
        assert_eq!(errno("ibv_test", || Ok(())), 0);
    }
}
