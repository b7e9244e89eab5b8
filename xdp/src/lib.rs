//! RoCE over AF_XDP: frames go from a NIC's queue into our own memory and back,
//! past the kernel's network stack. Nothing here knows of queue pairs.
//!
//! # Layout
//!
//! - `double`: what tests put in the kernel's place.
//! - `net`: what the kernel's stack does for a socket and nobody does for a frame:
//!   routes, neighbours, addresses, and the headers from Ethernet to UDP.
//! - `offer`: what an interface offers, asked without touching it.
//! - `port`: the [`XdpPort`], which puts queues behind the `Port` trait of `roce-port`.
//! - `program`: the redirect program, which gives our frames to our sockets and all else to
//!   the kernel.
//! - `queue`: one queue of an interface: frames in, frames out.
//! - `ring`: the rings between us and the kernel, generic over the memory.
//! - `socket`: AF_XDP sockets.
//! - `umem`: the memory that frames lie in, and who has which part of it.
//! - `sys`: the system calls; nearly all the unsafe code of the crate.

pub mod double;
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
