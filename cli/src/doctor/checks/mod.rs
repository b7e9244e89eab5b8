//! The checks: one for each thing that a program depends on.

mod devices;
mod frameworks;
mod hardware;
mod library;
mod limits;
mod port;
mod program;
mod settings;

use super::finding::Finding;
use super::machine::{DeviceView, Machine};

pub(super) use program::program;

/// The machine, and the way that programs are started on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) machine: &'a Machine,
    /// Whether programs will be started by `roce run`, which fixes many problems. False if the
    /// environment already leads to this stack's library.
    pub(super) by_run: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        Self {
            machine,
            by_run: !library::is_in_place(machine),
        }
    }

    /// Whether programs will find device nodes.
    fn has_nodes(&self) -> bool {
        let nodes = self.machine.names("/dev/infiniband");
        self.run_shows_device_files() || nodes.iter().any(|name| name.starts_with("uverbs"))
    }

    /// Whether programs will be started by `roce run`, and it can show them the device files.
    fn run_shows_device_files(&self) -> bool {
        self.by_run && !matches!(self.machine.device_view, DeviceView::Unavailable(_))
    }
}

/// The checks that do not depend on the program.
pub(super) const ALL: &[fn(&Context<'_>) -> Vec<Finding>] = &[
    settings::settings,
    devices::devices,
    library::library,
    devices::nodes,
    devices::sysfs,
    hardware::hardware,
    limits::memory,
    limits::locked_memory,
    limits::open_files,
    limits::pipes,
    limits::udp_buffer,
    port::port,
    frameworks::ucx,
    frameworks::libfabric,
    frameworks::open_mpi,
    frameworks::nccl,
];

#[cfg(test)]
mod tests;
