//! Detects forks. A forked child has a copy of its parent's memory, but not of its threads, and
//! shares its sockets. So the child must not use its parent's NIC: that would affect the parent.

use nix::errno::Errno;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the process that loaded this library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Called at the fork, in the child, which has no other thread yet.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Registers the fork handler, once per process.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn register_handler() -> Result<(), Errno> {
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock();
    if !*registered {
        // SAFETY: the handler only increments an atomic, which is async-signal-safe. This library
        // is never unloaded, so the handler stays valid.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            return Err(Errno::from_raw(failed));
        }
        *registered = true;
    }
    Ok(())
}

/// A number that identifies the process among its parents and children.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
