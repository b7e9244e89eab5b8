//! Process exit: peers get all bytes that were sent, as with TCP.

use crate::inside::is_inside;
use crate::{children, option_copy, rdmacm, relay, table};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long exit waits for children that have not used an inherited connection yet. Connections that
/// they use by then are relayed until they close.
const GRACE: Duration = Duration::from_secs(1);

/// How long `_exit` waits for peers. At `exit`, librdmacm waits.
const LINGER: Duration = Duration::from_secs(2);

/// Registers the handler that runs after all the program's `atexit` handlers.
pub(crate) fn register() {
    // SAFETY: the function stays callable, since the library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Registers a wait for children, once there is an rsocket. This project's librdmacm disconnects all
/// rsockets in a handler of its own, and the last registered handler runs first.
pub(crate) fn register_wait() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::atexit(wait_at_exit) };
    }
}

extern "C" fn wait_at_exit() {
    // A panic of this library must not change how the process exits.
    let _ = std::panic::catch_unwind(wait_for_children);
}

extern "C" fn at_exit() {
    // As above.
    let _ = std::panic::catch_unwind(|| end(|_, _| {}));
}

/// Closes all rsockets before `_exit`, which stops all threads.
pub(crate) fn close_all() {
    let until = Instant::now() + LINGER;
    end(|fd, rs| {
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero() && !option_copy::is_reset_at_close(fd) {
            rdmacm::wait_at_close(rs, left);
        }
    });
}

/// Waits until children no longer need this process, the first time it is called.
fn wait_for_children() {
    static HAS_WAITED: AtomicBool = AtomicBool::new(false);
    if rdmacm::was_used() && !is_inside() && !HAS_WAITED.swap(true, Ordering::Relaxed) {
        children::wait_for_all(GRACE);
        relay::wait_for_all();
    }
}

/// Waits for children, and closes all rsockets of this process.
fn end(before_close: impl Fn(c_int, c_int)) {
    if !rdmacm::was_used() || is_inside() {
        return;
    }
    wait_for_children();
    for (fd, socket) in table::sockets_at_exit() {
        // `SO_LINGER` blocks `close`, not exit.
        socket.lingers.store(false, Ordering::Relaxed);
        if socket.rs() >= 0 {
            before_close(fd, socket.rs());
        }
        socket.drop_rsocket();
    }
}
