//! The folder of the PyPI wheels that tests/lab/install-programs.sh installs.

use crate::{all_or_left_out, leave_out};
use std::path::{Path, PathBuf};

const INSTALL: &str = "tests/lab/install-programs.sh installs it";

/// The folder: that of `ROCE_PROGRAMS_DIR`, or `target/programs`.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("ROCE_PROGRAMS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/programs"),
        PathBuf::from,
    )
}

/// A file among those of the installed wheels. `None` if wheels are left out, or, after a line on
/// stderr, if the file is missing.
///
/// # Panics
/// If the file is missing and the environment variable `ROCE_LAB` is `require`.
pub(crate) fn wheel_or_skip(file: &str) -> Option<PathBuf> {
    built_or_skip(&format!("wheels/{file}"))
}

/// As [`wheel_or_skip`], for what is built from sources there.
///
/// # Panics
/// As there.
pub(crate) fn built_or_skip(path: &str) -> Option<PathBuf> {
    if !all_or_left_out() {
        return None;
    }
    let path = folder().join(path);
    if !path.exists() {
        testkit::skip(
            "programs that tests/lab/install-programs.sh installs",
            &format!("{}: {INSTALL}", path.display()),
        );
        return None;
    }
    Some(path)
}

/// As [`built_or_skip`], for what the script does not install: the test is left out if it is not there.
pub(crate) fn placed_or_left_out(path: &str) -> Option<PathBuf> {
    if !all_or_left_out() {
        return None;
    }
    let path = folder().join(path);
    if !path.exists() {
        leave_out(&format!(
            "runs with {} (docs/programs.md says what belongs there)",
            path.display()
        ));
        return None;
    }
    Some(path)
}
