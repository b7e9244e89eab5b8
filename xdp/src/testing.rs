//! What unit tests share.

use std::io::Write;

/// Whether this process is root's. If not, says loudly that a test does not run, or fails
/// if it must.
pub(crate) fn is_root(test: &str) -> bool {
    // SAFETY: the call takes nothing and can't fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let required = std::env::var_os("ROCE_LAB").is_some_and(|value| value == "require");
    assert!(
        !required,
        "{test}: it takes root, and ROCE_LAB=require forbids to skip"
    );
    // Not by a macro: the test harness would swallow that.
    let _ = writeln!(
        std::io::stderr(),
        "\n*** SKIPPED: {test}: it takes root ***"
    );
    false
}
