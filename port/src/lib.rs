//! The interface between a NIC and a network.
//!
//! - [`Port`]: the trait of a complete port. It extends the stack's
//!   [`Transmit`](roce_stack::Transmit) with everything else that the driver of a port needs:
//!   receiving, addresses, readiness.
//! - [`memory`]: a port in memory, for benches, fuzz targets and tests.
//! - [`Layer`]: what goes around a port, such as a capture or injected faults.
//! - [`Neighbours`]: other open devices of this user on this host.
//! - [`fork`]: descriptors and shared memory that forked children give up.
#![warn(missing_docs)]

mod effects;
mod error;
pub mod fork;
mod layer;
pub mod memory;
mod neighbours;
mod port;
mod sent;

pub use effects::{Effects, Loss};
pub use error::PortError;
pub use layer::{Layer, Layered, NoLayer};
pub use memory::MemoryPort;
pub use neighbours::{Accepted, Neighbours, NotAccepted, Offered, Offers, Refusal};
pub use port::{Port, PortCapabilities, PortFd, PortQueue, RxSink, Steering};
pub use sent::{SentMemory, SentRef};
