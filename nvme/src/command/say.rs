//! Messages on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Writes a line, prefixed with the program's name.
pub(super) fn say(message: impl Display) {
    // There is no place left to report an error.
    let _ = writeln!(std::io::stderr(), "nvme-rdma: {message}");
}

/// After how long a user wants to know what the program waits for.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// Runs `connect`. If that takes long, says which host the program waits for.
pub(super) fn while_waiting_for<T>(host: SocketAddr, connect: impl FnOnce() -> T) -> T {
    let (_done, wait) = mpsc::channel::<()>();
    let notice = move || {
        if wait.recv_timeout(SILENT_FOR) == Err(RecvTimeoutError::Timeout) {
            say(format_args!(
                "waiting for {host}, which has not answered yet. A host that is silent is given up \
                 after half a minute"
            ));
        }
    };
    // Without a thread, there is no notice.
    let _ = thread::Builder::new().spawn(notice);
    connect()
}

/// Prints text on stdout. A reader that has gone, as with `| head`, is no error.
pub(super) fn print(text: impl Display) -> io::Result<()> {
    let printed = writeln!(io::stdout(), "{text}");
    unless_reader_has_gone(printed.and_then(|()| io::stdout().flush())).map(|_| ())
}

/// Whether the reader of stdout is still there, from the result of a write.
///
/// # Errors
/// Any other error of the write, with the name of what could not be written.
pub(super) fn unless_reader_has_gone(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let text = format!("can't write to standard output: {error}");
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// A progress bar over `bytes` bytes on stderr, which shows nothing if that is no terminal.
pub(super) fn progress(bytes: Option<u64>) -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let template = "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    let bar = match bytes {
        Some(bytes) => indicatif::ProgressBar::new(bytes),
        None => indicatif::ProgressBar::no_length(),
    };
    match indicatif::ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
