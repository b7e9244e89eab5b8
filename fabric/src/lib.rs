#![doc = include_str!("../README.md")]

mod cluster;
mod control;
mod emulator;
mod error;
mod frame;
mod host;
mod interface;
mod lag;
mod reaper;
mod space;

pub use cluster::{Cluster, ClusterPlan, mpi_variables};
pub use control::{Answer, Request, ask};
pub use error::FabricError;
pub use frame::{ipv4, ipv6};
pub use host::HOST_FILE;
pub use interface::NAME;
pub use lag::{LATE, Lag};
pub use reaper::ExitCode;
pub use space::enter;
