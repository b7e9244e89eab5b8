//! C programs of tests.

use std::path::Path;
use std::process::Command;

/// Compiles the C program, or with `-shared` the library, `to`. Warnings are errors.
///
/// # Panics
/// If `compiler` does not start, or `source` does not compile.
pub fn compile(compiler: &str, source: impl AsRef<Path>, to: impl AsRef<Path>, options: &[&str]) {
    let source = source.as_ref();
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .args([to.as_ref(), source])
        .args(options)
        .output()
        .expect("the compiler starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let source = source.display();
    assert!(
        output.status.success(),
        "{source} does not compile: {errors}"
    );
}
