//! Why C calls fail, for `ROCE_LOG` and `ROCE_WHY`: the function, the error, and the wrong value. C sees
//! only a number.

use nix::errno::Errno;
use roce_verbs::why::RefusedCalls;
use std::cell::RefCell;
use std::sync::LazyLock;

static REFUSED: LazyLock<RefusedCalls> = LazyLock::new(RefusedCalls::from_environment);

thread_local! {
    /// Why the current call of this thread will fail, if known.
    static REASON: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether reasons are kept: `ROCE_LOG` or `ROCE_WHY` is set.
pub(crate) fn is_enabled() -> bool {
    REFUSED.is_enabled()
}

/// Records why the current call of this thread is about to fail. Does nothing unless `ROCE_LOG` or
/// `ROCE_WHY` is set.
pub(crate) fn set_reason(reason: impl FnOnce() -> String) {
    if is_enabled() {
        let reason = reason();
        // The storage is gone in a thread that is exiting.
        let _ = REASON.try_with(|kept| kept.replace(Some(reason)));
    }
}

/// Records the reason of an error, see [`set_reason`], and returns the error.
pub(crate) fn with_reason(errno: Errno, reason: impl FnOnce() -> String) -> Errno {
    set_reason(reason);
    errno
}

/// Takes the recorded reason. A caller that reports the failure in a later call keeps it until
/// then.
pub(crate) fn take_reason() -> Option<String> {
    if !is_enabled() {
        return None;
    }
    // The storage is gone in a thread that is exiting.
    REASON.try_with(RefCell::take).ok().flatten()
}

/// Ends a call, and logs it if it failed. `call` is the C name of the function.
pub(crate) fn call_ended(call: &'static str, failure: Option<Errno>) {
    if !is_enabled() {
        return;
    }
    let reason = take_reason();
    match failure {
        // Not a failure: nothing is available yet, a connection is being established, a signal arrived,
        // or an entry of the GID table is empty, as programs find when they go through it.
        None | Some(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EINTR | Errno::ENODATA) => (),
        Some(errno) => REFUSED.write(call, errno, reason.as_deref()),
    }
}
