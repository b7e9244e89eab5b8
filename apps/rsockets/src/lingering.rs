//! Closes in the background, which wait for the peer while the program continues.

use parking_lot::{Condvar, Mutex};
use roce_trust::fork::PerProcess;
use std::thread;
use std::time::Instant;

/// The pending closes.
#[derive(Default)]
struct Lingering {
    count: Mutex<usize>,
    changed: Condvar,
}

static LINGERING: PerProcess<Lingering> = PerProcess::new();

/// Calls `close` on a new thread, or on this one if no thread can be started.
pub(crate) fn close_in_background(close: impl FnOnce() + Clone + Send + 'static) {
    let lingering = LINGERING.get();
    *lingering.count.lock() += 1;
    let again = close.clone();
    let thread = thread::Builder::new().name("rsocket-close".into());
    let started = thread.spawn(move || {
        close();
        lingering.release();
    });
    if started.is_err() {
        again();
        lingering.release();
    }
}

impl Lingering {
    fn release(&self) {
        *self.count.lock() -= 1;
        self.changed.notify_all();
    }
}

/// Waits until all closes have finished, or until `end`.
pub(crate) fn wait_until(end: Instant) {
    let Some(lingering) = LINGERING.existing() else {
        return;
    };
    let mut count = lingering.count.lock();
    while *count > 0 {
        if lingering.changed.wait_until(&mut count, end).timed_out() {
            return;
        }
    }
}
