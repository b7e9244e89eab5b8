//! The library that cargo built with the tests, and a folder of links to it, with the names that
//! programs load.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

/// The library as cargo built it, next to the executable of this test.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let built = test.with_file_name("libroce_verbs_shim.so");
    assert!(
        built.is_file(),
        "no {}: cargo builds it with the tests of its package",
        built.display()
    );
    built
}

/// A folder for `LD_LIBRARY_PATH`.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        symlink(built(), folder.path().join(name)).expect("a link");
    }
    folder
}
