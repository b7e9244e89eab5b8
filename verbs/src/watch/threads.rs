//! Background threads of the process.

use crate::signals;
use std::io;
use std::thread::{Builder, JoinHandle};

/// The size of the thread's stack. It is small, for processes with tight limits.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread that takes none of the application's signals.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    signals::spawn(thread, run)
}
