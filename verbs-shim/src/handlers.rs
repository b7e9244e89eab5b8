//! The requests of the program's signal handlers to a call that waits in `ppoll`.
//!
//! The kernel restarts a `read` after a signal whose handler has `SA_RESTART`, and lets it fail with
//! `EINTR` after another. It never restarts `ppoll`, and nothing says which handler ran. So a thread
//! waits in `ppoll` only while all handlers ask for the same.

use nix::errno::Errno;
use roce_trust::signals::Handlers;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The time for which a thread relies on what it has found. To look takes 60 system calls, and a message of
/// a program that waits for each takes 50 us.
const HOLDS: Duration = Duration::from_millis(10);

thread_local! {
    /// This thread's finding, and its time.
    static FOUND: Cell<Option<(Instant, Handlers)>> = const { Cell::new(None) };
}

fn look(now: Instant) -> Handlers {
    let handlers = Handlers::of_this_thread();
    FOUND.set(Some((now, handlers)));
    handlers
}

/// Whether all handlers ask for the same, as of the last 10 ms.
pub(crate) fn agree_on_restart() -> bool {
    let now = Instant::now();
    let known = FOUND
        .get()
        .filter(|(at, _)| now.duration_since(*at) < HOLDS);
    known
        .map_or_else(|| look(now), |(_, handlers)| handlers)
        .agree()
}

/// Whether a call that a signal has interrupted goes on. If a handler was installed just now, so that
/// they disagree, it fails: a program whose handler asks for that may rely on it. Leaves `errno` as it
/// was.
pub(crate) fn restart() -> bool {
    let errno = Errno::last();
    let handlers = look(Instant::now());
    errno.set();
    !handlers.interrupt
}
