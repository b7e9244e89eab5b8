//! Reports faults when they strike.

use crate::{Faults, Injection};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use roce_trust::output::write_to_stderr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of reported faults per process.
const MAX_LINES: u32 = 1000;

static LINES: AtomicU32 = AtomicU32::new(0);

/// Reports the faults that this process injects, with their seed.
pub(crate) fn announce(faults: &Faults) {
    write_to_stderr(&format!("roce: faults: {faults}\n"));
}

/// Reports a fault that strikes, in the form of an injection that reproduces it.
pub(crate) fn report(injection: &Injection) {
    match LINES.fetch_add(1, Ordering::Relaxed) {
        MAX_LINES => write_to_stderr(&format!(
            "roce: fault: {injection}; further faults of this process are not reported\n"
        )),
        line if line < MAX_LINES => write_to_stderr(&format!("roce: fault: {injection}\n")),
        _ => {}
    }
}

/// Kills the process as a crash would: nothing is flushed, closed or sent to peers.
pub(crate) fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // Unreachable: a signal to the own process is delivered before the call returns.
    std::process::abort()
}
