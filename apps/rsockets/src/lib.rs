//! Sockets over RDMA: the protocol of rdma-core's rsockets, on this project's verbs.
//!
//! The functions of `<rdma/rsocket.h>`, with Rust types. A socket is a descriptor that only these
//! functions accept. `roce-verbs-shim` exports them to C programs; docs/design/sockets.md describes the
//! protocol.
//!
//! ```text
//! functions ─► Socket: locks, waiting ─► Stream: messages, no waiting ─► Inbox, Outbox: arithmetic
//!                      │                         │
//!                      └─ connection manager     └─ QP, CQ, memory
//! ```

// The print macros panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod any;
mod calls;
mod datagram;
mod error;
mod keepalive;
mod lingering;
mod nic;
mod options;
mod poll;
mod shared;
mod socket;
mod stream;
mod table;
mod wait;
pub mod wire;

pub use calls::*;
pub use error::Error;
pub use poll::{PollFd, poll};
#[cfg(fuzzing)]
pub use stream::fuzzing;
