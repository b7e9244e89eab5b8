//! Standard output and stderr of commands, with one rule for all of them.
//!
//! If the reader of standard output has gone, as with `| head`, that is no error and there is no message: a
//! command that prints without end stops with exit code 0, and any other finishes its work and reports its own
//! exit code. Any other failure to write, such as a full disk, is an error that names standard output.
//! `println!` panics in both cases.
//!
//! Text of a peer, a file or another process cannot control the terminal: [`Harmless`].

mod harmless;

pub use harmless::Harmless;

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, IsTerminal as _, StdoutLock, Write};
use std::process::ExitCode;

/// The standard output of this process, locked, for text: control characters are escaped, as
/// [`Harmless`] says. Its errors name it.
pub struct Stdout(StdoutLock<'static>);

impl Stdout {
    /// Waits for other threads to release it.
    pub fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Harmless(&mut self.0).write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

/// Writes `line` to stderr in one call, because other processes may write to the same stderr.
pub fn write_to_stderr(line: &str) {
    // If stderr fails, there is nowhere to report it.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// A number of bytes in binary units, with one decimal from 1 KiB on.
pub fn binary_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Names standard output in an error of a write to it. Keeps the kind, by which callers recognise a reader
/// that has gone, and by which `write_all` retries.
pub fn named(error: io::Error) -> io::Error {
    let text = format!("can't write to standard output: {error}");
    io::Error::new(error.kind(), text)
}

/// Prints text completely.
///
/// # Errors
/// If it can't be written, also if the reader has gone.
pub fn print_stream(text: Arguments<'_>) -> io::Result<()> {
    let mut out = Stdout::lock();
    out.write_fmt(text)?;
    out.flush()
}

/// Prints text completely. Discards it if the reader has gone.
///
/// # Errors
/// If it can't be written for another reason.
pub fn print(text: Arguments<'_>) -> io::Result<()> {
    unless_reader_has_gone(print_stream(text)).map(|_| ())
}

/// Prints a line, as [`print()`] does.
///
/// # Errors
/// As [`print()`].
pub fn print_line(text: impl Display) -> io::Result<()> {
    print(format_args!("{text}\n"))
}

/// Whether the reader is still there, from the result of a write.
///
/// # Errors
/// Any other error of the write.
pub fn unless_reader_has_gone(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a line to stderr, prefixed with the program's name, in one system call: programs may share
/// stderr, where the parts of several writes would mix. Control characters are escaped.
pub fn say(program: &str, message: impl Display) {
    let line = format!("{program}: {message}\n");
    // There is no place left to report an error.
    let _ = Harmless(io::stderr()).write_all(line.as_bytes());
}

/// The exit code of a program that has `printed` its help or version (`is_help`), or what is wrong
/// with its arguments. Says why the help could not be printed, unless its reader has gone.
pub fn exit_code_of_usage(program: &str, printed: io::Result<()>, is_help: bool) -> ExitCode {
    if !is_help {
        return ExitCode::from(2);
    }
    match unless_reader_has_gone(printed.map_err(named)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say(program, error);
            ExitCode::FAILURE
        }
    }
}
