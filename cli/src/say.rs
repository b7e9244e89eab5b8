//! Messages on stderr.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a line, after the program's name, in one piece: `roce perf` is two processes
/// with one stderr, and what is written in parts is torn apart there.
pub(crate) fn say(program: &str, message: impl Display) {
    let line = format!("{program}: {message}\n");
    // Nobody is left to be told of an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
