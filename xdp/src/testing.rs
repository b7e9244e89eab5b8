//! Helpers for unit tests.

use std::io::Write;

/// Whether this process runs as root. If not, reports on stderr that a test is skipped, or fails if
/// tests must not be skipped.
pub(crate) fn is_root(test: &str) -> bool {
    // SAFETY: the call has no parameters and can't fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let required = std::env::var_os("ROCE_LAB").is_some_and(|value| value == "require");
    assert!(
        !required,
        "{test}: it takes root, and ROCE_LAB=require does not allow skipping it"
    );
    // Write to stderr directly, because the test harness captures what the print macros write.
    let _ = writeln!(
        std::io::stderr(),
        "\n*** SKIPPED: {test}: it takes root ***"
    );
    false
}
