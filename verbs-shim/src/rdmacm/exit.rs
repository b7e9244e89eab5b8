//! The end of the process: tells peers that their connections are over.
//!
//! Programs often end without `rdma_disconnect`: they return from `main`, or call `exit`. The
//! kernel's connection manager then ends their connections, and so does this. A process that is
//! killed by a signal sends nothing; its peers detect that themselves.

use super::table::existing;
use crate::guard;
use std::time::Duration;

/// The longest time for telling the peers. It takes far less unless a lock is held, which happens
/// if a signal handler ends the process in the middle of a call.
const PATIENCE: Duration = Duration::from_millis(500);

/// Called after the functions that the program has registered with `atexit`, and after the
/// destructors of libraries that use this one. So connections that these end are already over.
// SAFETY: the section holds an array of pointers to such functions. This library is never
// unloaded, so the function is called when the process ends.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = at_the_end;

extern "C" fn at_the_end() {
    guard::nothing(|| {
        if let Some(table) = existing() {
            table.devices.leave(PATIENCE);
        }
        Ok(())
    });
}
