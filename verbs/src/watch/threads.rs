//! Threads beside those of the application.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::thread::{Builder, JoinHandle};

/// Enough for what it does, and little for a process with small limits.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread in which none of the application's signals lands.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // Threads inherit the mask.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let builder = Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    let thread = builder.spawn(run);
    before.thread_set_mask()?;
    thread
}
