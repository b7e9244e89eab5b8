//! Identifies the process. A forked child has a copy of everything but the threads, and shares the
//! sockets: its operations on its parent's NIC would affect its parent.

use nix::errno::Errno;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the process that loaded this library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Called at the fork, in the child, which has no other thread yet.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Starts counting forks.
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

/// A number that identifies the process among its parents and children.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
