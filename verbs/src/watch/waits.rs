//! What a process waits for that others must do: an answer of a peer, or an acknowledgement by the program.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The most of a process in a snapshot.
const MOST: usize = 64;

/// Something that a process waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitSnapshot {
    /// What waits, and for what.
    pub what: String,
    /// Why it may wait in vain, if something shows it.
    pub likely: Option<String>,
    /// What to do.
    pub advice: String,
}

type Source = dyn Fn() -> Vec<WaitSnapshot> + Send + Sync;

static SOURCES: Mutex<Vec<Arc<Source>>> = Mutex::new(Vec::new());

/// Shows to watchers, until it is dropped, what a part of this process waits for.
pub struct ShownWaits(Arc<Source>);

/// Shows to watchers what `source` returns, which is called by another thread.
///
/// Dropping the value waits for the end of a call: do not hold a lock then that `source` takes.
pub fn show_waits(source: impl Fn() -> Vec<WaitSnapshot> + Send + Sync + 'static) -> ShownWaits {
    let source: Arc<Source> = Arc::new(source);
    SOURCES.lock().push(Arc::clone(&source));
    ShownWaits(source)
}

impl Drop for ShownWaits {
    fn drop(&mut self) {
        SOURCES.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

impl fmt::Debug for ShownWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownWaits").finish_non_exhaustive()
    }
}

pub(super) fn all() -> Vec<WaitSnapshot> {
    let sources = SOURCES.lock();
    let each = sources.iter().flat_map(|source| source());
    each.take(MOST).collect()
}
