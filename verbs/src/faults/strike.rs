//! Reports of faults that have struck.

use super::{Faults, Injection};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of lines about faults in a process.
const MAX_LINES: u32 = 1000;

static LINES: AtomicU32 = AtomicU32::new(0);

/// Reports the faults that a process injects, with their seed.
pub(super) fn announce(faults: &Faults) {
    write(&format!("roce: faults: {faults}\n"));
}

/// Reports a fault that strikes, as the injection that repeats it.
pub(super) fn report(injection: &Injection) {
    match LINES.fetch_add(1, Ordering::Relaxed) {
        MAX_LINES => write(&format!(
            "roce: fault: {injection}; further ones of this process are not reported\n"
        )),
        line if line < MAX_LINES => write(&format!("roce: fault: {injection}\n")),
        _ => {}
    }
}

fn write(line: &str) {
    // There is nowhere to report that this failed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Ends the process as a crash does: nothing is flushed, closed or said to peers.
pub(super) fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // A signal to oneself is delivered before the call returns.
    std::process::abort()
}
