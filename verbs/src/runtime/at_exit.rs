//! Sends the posts that still wait for others when the process exits.

use super::DeviceState;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, Weak};

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

/// Waits for no lock: a signal handler may call `exit` in the middle of a call.
fn send_all() {
    let Some(open) = OPEN.try_lock() else { return };
    let own = std::process::id();
    for (_, device) in open.iter().filter(|(process, _)| *process == own) {
        if let Some(device) = device.upgrade()
            && let Some(mut engine) = device.engine.try_lock()
        {
            engine.send_waiting(device.now());
        }
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
