//! Which process this is. A child that is forked has a copy of everything but the threads,
//! and shares the sockets: what it did with its parent's NIC would be done to its parent.

use nix::errno::Errno;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the process that loaded this library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// As of the fork, in the child, which has no other thread yet.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Forks are counted from now on.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn watch() -> Result<(), Errno> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock();
    if !*watched {
        // SAFETY: the function does nothing that a child may not do at that moment, and
        // stays: this library is never unloaded.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            return Err(Errno::from_raw(failed));
        }
        *watched = true;
    }
    Ok(())
}

/// The process, by a number that no parent or child of it has.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
