//! What a device has done: counters, captured packets, and snapshots of all devices of a process
//! or of all processes of the host.

#[cfg(feature = "observe")]
pub use crate::tally::{Tally, Totals, totals_of_this_program};
pub use crate::waits::{ShownWaits, WaitSnapshot, show_waits};
#[cfg(feature = "observe")]
pub use crate::watch::{DeviceSnapshot, Processes, QpSnapshot, Snapshot, watch_processes};
#[cfg(feature = "observe")]
pub use roce_capture::{Capture, CreateError};
pub use roce_stack::{Counters, DropReason, Stat};
