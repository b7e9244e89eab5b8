//! Messages on stderr.

use roce_trust::output;
use std::fmt::Display;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Writes a line, prefixed with the program's name.
pub(super) fn say(message: impl Display) {
    output::say("nvme-rdma", message);
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
