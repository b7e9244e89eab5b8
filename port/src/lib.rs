//! What stands between a NIC and a network.
//!
//! - [`Port`]: the trait of a whole port. It extends the
//!   [`Transmit`](roce_stack::Transmit) that the stack asks for with all that the
//!   driver of a port needs: receiving, addresses, readiness.
//! - [`fault`]: faults on purpose, put around a port from outside.
#![warn(missing_docs)]

mod error;
pub mod fault;
mod port;

pub use error::PortError;
pub use port::{Port, PortCapabilities, PortFd, RxSink, Steering};
