//! Cancellation points: see `roce_trust::cancellation`.

// A cancelled thread unwinds its stack from here.
unsafe extern "C-unwind" {
    safe fn pthread_testcancel();
}

/// Unwinds the calling thread if it was cancelled. Functions that POSIX makes cancellation points call
/// this first.
pub(crate) fn test() {
    pthread_testcancel();
}
