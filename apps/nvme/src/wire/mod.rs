//! The messages between a host and a target: command capsules, responses, the data of Fabrics
//! commands, identify structures, log pages, and the private data of connections.
//!
//! All numbers on the wire are little-endian. Section numbers are those of the NVM Express Base
//! Specification 2.0 ("Base"), the NVM Command Set Specification 1.0 ("NVM") and the RDMA Transport
//! Specification 1.0 ("RDMA").
//!
//! Nothing here can panic on what a peer sent: each structure has a fixed size, and is parsed from
//! an array of that size or from a slice whose length is checked.

pub mod admin;
mod command;
pub mod discovery;
pub mod fabrics;
mod field;
pub mod identify;
pub mod io;
mod nqn;
mod private;
mod property;
mod sgl;
mod status;

pub use command::{COMMAND_LEN, Command, RESPONSE_LEN, Response};
pub use nqn::{HostId, Nqn, NqnError};
pub use private::{AcceptPrivate, Refusal, RejectPrivate, RequestPrivate};
pub use property::{Capabilities, Configuration, ControllerStatus, Property};
pub use sgl::{BadSgl, KeyedSgl, Sgl};
pub use status::Status;

#[cfg(test)]
mod tests;
