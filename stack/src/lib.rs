//! The RDMA NIC as a pure state machine.
//!
//! Nothing in this crate does I/O, reads a clock or starts a thread.
#![warn(missing_docs)]

pub mod port;
pub mod time;
