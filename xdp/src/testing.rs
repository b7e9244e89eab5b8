//! Helpers for unit tests.

/// Whether this process runs as root. If not, reports on stderr that a test is skipped, or fails if
/// tests must not be skipped.
pub(crate) fn is_root(test: &str) -> bool {
    // SAFETY: the call has no parameters and can't fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        testkit::skip_test(test, "root", "");
    }
    is_root
}
