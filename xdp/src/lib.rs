//! RoCE over AF_XDP: frames go from a NIC's queue into this process's memory and back, bypassing
//! the kernel's network stack. This crate does not deal with queue pairs.
//!
//! # Layout
//!
//! - `double`: test doubles for the kernel.
//! - `net`: routes, neighbours, addresses, and the headers from Ethernet to UDP, which the kernel
//!   handles for sockets but not for raw frames.
//! - `offer`: what an interface supports, queried without changing its configuration.
//! - `port`: the [`XdpPort`], which implements the `Port` trait of `roce-port` with queues.
//! - `program`: the redirect program, which redirects this port's frames to its sockets and passes
//!   all others to the kernel.
//! - `queue`: one queue of an interface, which receives and sends frames.
//! - `ring`: the rings shared with the kernel, generic over the memory.
//! - `socket`: AF_XDP sockets.
//! - `umem`: the memory that holds frames, and the ownership of its chunks.
//! - `sys`: the system calls, and nearly all the unsafe code of the crate.

pub mod double;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod hostile;
pub mod net;
pub mod offer;
pub mod port;
pub mod program;
pub mod queue;
pub mod ring;
pub mod socket;
pub mod umem;

mod sys;
#[cfg(test)]
mod testing;

pub use port::{Ipv6Checksum, XdpPort, XdpPortConfig};
