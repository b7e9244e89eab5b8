//! Background threads, which take none of the application's signals.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that blocks all signals, except those of faults. A fault is the thread's own: if
/// it blocks the signal, the kernel ends the process without calling a handler.
pub(crate) fn spawn(
    thread: Builder,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let faults = [
        Signal::SIGBUS,
        Signal::SIGSEGV,
        Signal::SIGILL,
        Signal::SIGFPE,
    ];
    let mut blocked = SigSet::all();
    faults.into_iter().for_each(|fault| blocked.remove(fault));
    // Threads inherit the signal mask.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = thread.spawn(run);
    before.thread_set_mask()?;
    started
}
