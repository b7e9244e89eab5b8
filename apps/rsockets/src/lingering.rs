//! Closes that wait for the peer while their program goes on.

use crate::per_process::PerProcess;
use parking_lot::{Condvar, Mutex};
use std::thread;
use std::time::Instant;

/// The closes that wait.
#[derive(Default)]
struct Lingering {
    /// Their number.
    count: Mutex<usize>,
    changed: Condvar,
}

static LINGERING: PerProcess<Lingering> = PerProcess::new();

/// Calls `close` in a thread of its own, so that the program need not wait.
pub(crate) fn finish(close: impl FnOnce() + Clone + Send + 'static) {
    let lingering = LINGERING.get();
    *lingering.count.lock() += 1;
    let again = close.clone();
    let thread = thread::Builder::new().name("rsocket-close".into());
    let started = thread.spawn(move || {
        close();
        lingering.one_less();
    });
    if started.is_err() {
        again();
        lingering.one_less();
    }
}

impl Lingering {
    fn one_less(&self) {
        *self.count.lock() -= 1;
        self.changed.notify_all();
    }
}

/// Waits until all have finished, but no longer than `end`.
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
