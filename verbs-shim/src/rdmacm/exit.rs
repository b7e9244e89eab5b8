//! Disconnects all connections when the process exits.
//!
//! Programs often end without `rdma_disconnect`: they return from `main`, or call `exit`. The
//! kernel's connection manager then disconnects, and so does this module. A process that is killed
//! by a signal sends nothing; its peers detect that themselves.

use super::table::existing;
use crate::guard;
use std::time::Duration;

/// The maximum time that disconnecting takes. It takes far less unless a lock is held, which
/// happens if a signal handler exits in the middle of a call.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Called after the functions that the program registered with `atexit`, and after the destructors
/// of libraries that use this one, so that these can still disconnect.
// SAFETY: the section holds an array of pointers to such functions. This library is never
// unloaded, so the function is called when the process ends.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    guard::nothing("rdma_at_exit", || {
        if let Some(table) = existing() {
            table.devices.disconnect_all(TIMEOUT);
        }
        Ok(())
    });
}
