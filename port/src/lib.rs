//! The interface between a NIC and a network.
//!
//! - [`Port`]: the trait of a complete port. It extends the stack's
//!   [`Transmit`](roce_stack::Transmit) with everything else that the driver of a port needs:
//!   receiving, addresses, readiness.
//! - [`memory`]: a port in memory, for benches, fuzz targets and tests.
//! - [`fault`]: injected faults, in a layer around a port.
//! - [`unplugged`]: a port whose cable is unplugged.
//! - [`fork`]: descriptors that forked children give up.
#![warn(missing_docs)]

mod error;
pub mod fault;
pub mod fork;
pub mod memory;
mod port;
mod sent;
pub mod unplugged;

pub use error::PortError;
pub use memory::MemoryPort;
pub use port::{Port, PortCapabilities, PortFd, RxSink, Steering};
pub use sent::{SentMemory, SentRef};
