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

/// The exit code of a command that SIGPIPE ends.
const CLOSED_PIPE: i32 = 128 + 13;

/// Makes this process end quietly when nobody reads its output any more, as with `| head`.
/// `println!` panics then, because Rust programs ignore SIGPIPE.
pub(crate) fn end_quietly_at_a_closed_pipe() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
            std::process::exit(CLOSED_PIPE);
        }
        report(panic);
    }));
}
