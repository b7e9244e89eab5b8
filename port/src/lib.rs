//! What stands between a NIC and a network.
//!
//! - [`Port`]: the trait of a whole port. It extends the
//!   [`Transmit`](roce_stack::Transmit) that the stack asks for with all that the
//!   driver of a port needs: receiving, addresses, readiness.
//! - [`memory`]: a port in memory, for benches, fuzz targets and tests.
//! - [`fault`]: faults on purpose, put around a port from outside.
#![warn(missing_docs)]

mod error;
pub mod fault;
pub mod memory;
mod port;

pub use error::PortError;
pub use memory::MemoryPort;
pub use port::{Port, PortCapabilities, PortFd, RxSink, Steering};
