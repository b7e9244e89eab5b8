//! Waits of a process for others: for an answer of a peer, or for an acknowledgement by the program.

use core::fmt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most of a process in a snapshot.
const MOST: usize = 64;

/// Something that a process waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitSnapshot {
    /// The waiting call, and the event that it waits for.
    pub what: String,
    /// Why it may wait in vain, if something shows it.
    pub likely: Option<String>,
    /// The advice.
    pub advice: String,
}

/// Returns what a part of the process waits for; `None` once that is no longer shown. Locked while it
/// is called, so that the thread that shows it, rather than the watch server's, frees what it holds.
type Source = Mutex<Option<Box<dyn Fn() -> Vec<WaitSnapshot> + Send>>>;

static SOURCES: Mutex<Vec<Arc<Source>>> = Mutex::new(Vec::new());

/// Shows to watchers, until it is dropped, what a part of this process waits for.
pub struct ShownWaits(Arc<Source>);

/// Shows to watchers what `source` returns, which is called by another thread.
///
/// Dropping the value waits for the end of a call of its `source`: do not hold a lock then that `source` takes.
pub fn show_waits(source: impl Fn() -> Vec<WaitSnapshot> + Send + Sync + 'static) -> ShownWaits {
    let source: Arc<Source> = Arc::new(Mutex::new(Some(Box::new(source))));
    SOURCES.lock().push(Arc::clone(&source));
    ShownWaits(source)
}

/// Shows that a call waits until the program has acknowledged `count` events.
pub fn show_wait_for_program(call: &str, count: u64, events: &str) -> ShownWaits {
    let wait = WaitSnapshot {
        what: format!(
            "{call} waits until the program has acknowledged {count} of the object's events{events}"
        ),
        likely: None,
        advice: "acknowledge each event that was taken (rdma_ack_cm_event, ibv_ack_async_event, \
                 ibv_ack_cq_events) before the object is destroyed, or from another thread"
            .to_owned(),
    };
    show_waits(move || vec![wait.clone()])
}

impl Drop for ShownWaits {
    fn drop(&mut self) {
        SOURCES.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
        let source = self.0.lock().take();
        drop(source);
    }
}

impl fmt::Debug for ShownWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownWaits").finish_non_exhaustive()
    }
}

pub(super) fn all() -> Vec<WaitSnapshot> {
    // A call may take long, and threads that begin or cease to wait must not.
    let sources = SOURCES.lock().clone();
    let each = sources.iter().flat_map(|source| {
        let source = source.lock();
        source.as_ref().map_or_else(Vec::new, |source| source())
    });
    each.take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Otherwise a snapshot would hold up a program that acknowledges an event.
    #[test]
    fn others_begin_and_cease_to_wait_during_a_call() {
        let (send, receive) = mpsc::channel();
        let _shown = show_waits(move || {
            // Not the whole test hangs if this fails.
            let is_free = SOURCES.try_lock_for(Duration::from_secs(10)).is_some();
            let _ = send.send(is_free);
            Vec::new()
        });
        all();
        assert!(receive.recv().expect("it was called"));
    }

    #[test]
    fn what_is_no_longer_shown_is_not_called() {
        let kept = Arc::new(());
        let held = Arc::clone(&kept);
        let shown = show_waits(move || {
            let _ = &held;
            Vec::new()
        });
        let taken = SOURCES.lock().clone();
        drop(shown);
        assert_eq!(Arc::strong_count(&kept), 1, "this thread has freed it");
        drop(taken);
    }
}
