//! RoCE over AF_XDP: frames go from a NIC's queue into our own memory and back,
//! past the kernel's network stack. Nothing here knows of queue pairs.
//!
//! # Layout
//!
//! - `net`: what the kernel's stack does for a socket and nobody does for a frame:
//!   routes, neighbours, addresses, and the headers from Ethernet to UDP.

pub mod net;
