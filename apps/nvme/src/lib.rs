//! NVMe over RDMA in userspace, on the public API of `roce-verbs` alone: a [`host`] that connects to
//! a controller and reads and writes its namespaces, and a [`target`] that offers namespaces in
//! files or in memory.
//!
//! ```no_run
//! use roce_nvme::host::{Host, HostOptions};
//!
//! # fn main() -> Result<(), roce_nvme::Error> {
//! let address = "nvme://10.0.0.2:4420/nqn.2014-08.org.nvmexpress:disk1".parse()?;
//! let mut host = Host::connect(&address, &HostOptions::default())?;
//! let disk = host.namespaces()[0];
//! let buffer = host.allocate(4096)?;
//! buffer.write(0, b"hello")?;
//! let queue = &mut host.queues()[0];
//! queue.write(&disk, 0, &buffer, 0..4096)?;
//! queue.drain()?;
//! queue.flush(&disk)?;
//! queue.drain()?;
//! assert!(host.not_durable().is_empty());
//! host.shutdown()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`wire`] has the structures that travel.
// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod address;
#[cfg(feature = "command")]
pub mod command;
mod completions;
mod error;
pub mod host;
mod nic;
pub mod target;
pub mod wire;

pub use address::{Address, AddressError};
pub use error::Error;

/// The port of NVMe over RDMA that IANA has registered, which an address without a port means.
pub const DEFAULT_PORT: u16 = 4420;
