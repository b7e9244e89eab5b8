//! Error numbers, and the wrapper around the body of each C function.

use libc::ssize_t;
use roce_trust::cancellation::Deferred;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error number of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

pub(crate) type Outcome<T> = Result<T, Errno>;

impl Errno {
    /// This thread's `errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: the address is that of this thread's errno.
        Self(unsafe { *libc::__errno_location() })
    }

    pub(crate) fn set(self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }

    /// Whether a call would have blocked.
    pub(crate) fn is_again(self) -> bool {
        self.0 == libc::EAGAIN
    }

    /// The C library's text for it.
    pub(crate) fn text(self) -> String {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        match text.find(" (os error") {
            Some(end) => text[..end].to_owned(),
            None => text,
        }
    }
}

/// The result of a call that returns -1 if it fails.
pub(crate) fn check(result: c_int) -> Outcome<c_int> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

/// The same for calls that return a number of bytes.
pub(crate) fn check_size(result: ssize_t) -> Outcome<ssize_t> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

/// Runs the body of a C function. Returns `failed` and sets `errno` if the body fails; preserves `errno`
/// otherwise. Defers cancellation of the thread. A panic is a bug of this library and fails the call
/// with `EIO`.
pub(crate) fn call<T>(failed: T, work: impl FnOnce() -> Outcome<T>) -> T {
    let _deferred = Deferred::new();
    let before = Errno::last();
    // Unwind safety: shared state is behind locks whose users ignore poison, or in atomics.
    match catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno(libc::EIO))) {
        Ok(result) => {
            before.set();
            result
        }
        Err(errno) => {
            errno.set();
            failed
        }
    }
}

/// Runs `work` and restores `errno`.
pub(crate) fn preserve<T>(work: impl FnOnce() -> T) -> T {
    let before = Errno::last();
    let result = work();
    before.set();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_fails_the_call() {
        assert_eq!(call(-1, || panic!("on purpose")), -1);
        assert_eq!(Errno::last(), Errno(libc::EIO));
    }

    #[test]
    fn a_success_leaves_errno() {
        Errno(libc::EDOM).set();
        assert_eq!(
            call(-1, || {
                Errno(libc::EAGAIN).set();
                Ok(3)
            }),
            3
        );
        assert_eq!(Errno::last(), Errno(libc::EDOM));
    }

    #[test]
    fn texts_are_without_numbers() {
        assert_eq!(Errno(libc::ECONNREFUSED).text(), "Connection refused");
    }
}
