//! Messages on stderr.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a line, prefixed with the program's name, in one system call. `roce perf` is two
/// processes with one stderr, so several writes would interleave.
pub(crate) fn say(program: &str, message: impl Display) {
    let line = format!("{program}: {message}\n");
    // There is no place left to report an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
