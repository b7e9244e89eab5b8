//! Standard output, with one rule for all commands.
//!
//! If the reader has gone, as with `| head`, that is no error and there is no message: a command that prints
//! without end stops with exit code 0, and any other finishes its work and reports its own exit code. Any
//! other failure to write, such as a full disk, is an error that names standard output.
//!
//! `println!` panics in both cases, so clippy forbids it in this crate.

use crate::say::Harmless;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal as _, StdoutLock, Write};
use std::os::fd::AsFd as _;

/// The standard output of this process, locked, for text: control characters are escaped, as
/// [`Harmless`] says. Its errors name it.
pub(crate) struct Stdout(StdoutLock<'static>);

impl Stdout {
    /// Waits for other threads to release it.
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
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

/// Keeps the kind, by which callers recognise a reader that has gone, and by which `write_all` retries.
fn named(error: io::Error) -> io::Error {
    let text = format!("can't write to standard output: {error}");
    io::Error::new(error.kind(), text)
}

/// Prints text completely.
///
/// # Errors
/// If it can't be written, also if the reader has gone.
pub(crate) fn print_stream(text: Arguments<'_>) -> io::Result<()> {
    let mut out = Stdout::lock();
    out.write_fmt(text)?;
    out.flush()
}

/// Prints text completely. Discards it if the reader has gone.
///
/// # Errors
/// If it can't be written for another reason.
pub(crate) fn print(text: Arguments<'_>) -> io::Result<()> {
    unless_reader_has_gone(print_stream(text)).map(|_| ())
}

/// Whether the reader is still there, from the result of a write.
///
/// # Errors
/// Any other error of the write.
pub(crate) fn unless_reader_has_gone(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether standard output is a pipe or socket without a reader, for those who write to it in another way.
pub(crate) fn reader_has_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    matches!(poll(&mut polled, PollTimeout::ZERO), Ok(1))
        && polled[0]
            .revents()
            .is_some_and(|found| found.contains(PollFlags::POLLERR))
}
