//! The record of a device's work: counters, captured packets, and snapshots of all devices of a process
//! or of all processes of the host.

pub use roce_stack::{Counters, DropReason, Stat};

#[cfg(feature = "observe")]
pub use {
    roce_observe::capture::{Capture, CreateError},
    roce_observe::tally::{Tally, Totals, totals_of_this_program},
    roce_observe::watch::{
        DeviceSnapshot, Processes, QpSnapshot, ShownWaits, Snapshot, WaitSnapshot, show_waits,
        watch_processes,
    },
};
