#![doc = include_str!("../README.md")]
// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod cluster;
mod control;
mod desk;
mod emulator;
mod error;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
mod inherited;
mod interface;
mod lag;
mod plan;
mod reaper;
mod space;
mod urgent;

pub use cluster::{Cluster, Observer};
pub use control::{Answer, Request, ask, door};
pub use error::FabricError;
pub use frame::{ipv4, ipv6};
pub use host::HOST_FILE;
pub use interface::NAME;
pub use lag::{LATE, Lag};
pub use plan::{ClusterPlan, mpi_variables};
pub use reaper::ExitCode;
pub use space::enter;
