//! Sends the posts that still wait for others when the process exits.

use super::DeviceState;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

/// The open devices, each with the ID of the process that opened it. A forked child has a copy of
/// this, and must not send its parent's packets.
static OPEN: Mutex<Vec<(u32, Weak<DeviceState>)>> = Mutex::new(Vec::new());

/// Sends what waits at `device` when the process ends by `exit` or by returning from `main`.
pub(crate) fn send_waiting_at_exit(device: &Arc<DeviceState>) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| handler::register(at_exit));
    let mut open = OPEN.lock();
    open.retain(|(_, device)| device.strong_count() > 0);
    open.push((std::process::id(), Arc::downgrade(device)));
}

extern "C" fn at_exit() {
    // A panic must not unwind into C, and at exit there is nowhere to report it.
    let _ = catch_unwind(AssertUnwindSafe(send_all));
}

fn send_all() {
    let Some(open) = obtain(|| OPEN.try_lock()) else {
        return;
    };
    let own = std::process::id();
    for (_, device) in open.iter().filter(|(process, _)| *process == own) {
        if let Some(device) = device.upgrade()
            && let Some(mut engine) = obtain(|| device.engine.try_lock())
        {
            engine.send_all(device.now());
        }
    }
}

/// How long to wait for a lock: longer than a thread that has it is kept from a busy processor.
const PATIENCE: Duration = Duration::from_millis(100);

/// A lock that another thread may have for a moment. It may also be this thread's, if a signal handler
/// has called `exit` in the middle of a call: then there is none.
fn obtain<T>(try_lock: impl Fn() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let lock = try_lock();
        if lock.is_some() || Instant::now() >= until {
            return lock;
        }
        std::thread::yield_now();
    }
}

/// The registration with the C library.
#[expect(unsafe_code)]
mod handler {
    pub(super) fn register(handler: extern "C" fn()) {
        // SAFETY: the handler takes no argument and does not unwind. If the library that contains
        // it is unloaded, the C library calls it before. Without memory for the registration,
        // nothing is registered.
        unsafe { libc::atexit(handler) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The background thread had kept posts from being sent at exit by having the lock just then.
    #[test]
    fn a_lock_that_another_thread_has_for_a_moment_is_awaited() {
        let tries = Cell::new(0);
        let found = obtain(|| {
            tries.set(tries.get() + 1);
            (tries.get() == 3).then_some(())
        });
        assert_eq!(found, Some(()));
    }

    #[test]
    fn a_lock_that_is_never_released_does_not_keep_the_process() {
        assert_eq!(obtain(|| None::<()>), None);
    }
}
