//! The end of the process: peers get all bytes that it has sent, as with TCP.

use crate::inside::is_inside;
use crate::{children, rdmacm, relay, table};
use std::time::Duration;

/// How long the end of a process waits for children that have not used a connection yet which they
/// inherited. What they use by then is relayed to the end.
const GRACE: Duration = Duration::from_secs(1);

/// Registers what `exit` does.
pub(crate) fn register() {
    // SAFETY: the function can be called at the end, since the library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    let work = || {
        children::wait_for_all(GRACE);
        relay::wait_for_all();
        close_all();
    };
    // A panic of this library must not change how the process ends.
    let _ = std::panic::catch_unwind(work);
}

/// Closes all rsockets of this process, which waits until what they have sent has arrived.
pub(crate) fn close_all() {
    if !rdmacm::was_used() || is_inside() {
        return;
    }
    for socket in table::sockets_at_exit() {
        socket.drop_rsocket();
    }
}
