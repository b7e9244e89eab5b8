//! The end of the process: peers get all bytes that it has sent, as with TCP.

use crate::inside::is_inside;
use crate::{children, rdmacm, real, relay, table};
use libc::{linger, socklen_t};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the end of a process waits for children that have not used a connection yet which they
/// inherited. What they use by then is relayed to the end.
const GRACE: Duration = Duration::from_secs(1);

/// How long `_exit` waits for peers. At `exit`, librdmacm does so.
const LINGER: Duration = Duration::from_secs(2);

/// Registers what `exit` does after all that the program has registered.
pub(crate) fn register() {
    // SAFETY: the function can be called at the end, since the library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Called once there is an rsocket. This project's librdmacm disconnects all rsockets at `exit`, and
/// what is registered last is called first.
pub(crate) fn register_wait() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { libc::atexit(wait_at_exit) };
    }
}

extern "C" fn wait_at_exit() {
    // A panic of this library must not change how the process ends.
    let _ = std::panic::catch_unwind(wait_for_children);
}

extern "C" fn at_exit() {
    // As above.
    let _ = std::panic::catch_unwind(|| end(|_, _| {}));
}

/// The end of the process by `_exit`, after which no thread goes on.
pub(crate) fn at_once() {
    let until = Instant::now() + LINGER;
    end(|fd, rs| {
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero() && !is_reset(fd) {
            rdmacm::wait_at_close(rs, left);
        }
    });
}

/// Waits, once, until children no longer need this process.
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
        // The end of a process is no close that the program waits for.
        socket.lingers.store(false, Ordering::Relaxed);
        if socket.rs() >= 0 {
            before_close(fd, socket.rs());
        }
        socket.drop_rsocket();
    }
}

/// Whether the program wants what is on its way to be lost when it closes the socket.
fn is_reset(fd: c_int) -> bool {
    let mut linger = linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let mut size = size_of::<linger>() as socklen_t;
    let to = (&raw mut linger).cast();
    // SAFETY: there is room for the value.
    unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, to, &raw mut size) };
    linger.l_onoff != 0 && linger.l_linger == 0
}
