//! Whom a process may trust on its host.
//!
//! - [`OwnUser`]: whether a process, a socket or a file belongs to the user of this process.
//! - [`peer`]: who is at the other end of a Unix socket; [`UnixSockets`]: who owns which name.
//! - [`cancellation`]: defers `pthread_cancel` while the body of a C function runs.
//! - [`environment`]: the variables of this project, which a program with more rights than its
//!   caller ignores.
//! - [`files`]: files that are written without following another user's links.
//! - [`fork`]: the process among its parents and children, and values that belong to one process.
//! - [`interfaces`]: the network interfaces.
//! - [`netlink`]: what the kernel says of links, addresses, routes and sockets.
//! - [`Next`]: the functions that a preloaded library replaces.
//! - [`output`]: what a command prints, so that text of others cannot control the terminal.
//! - [`signals`]: the handlers that the program has installed, and threads that take no signals.
//!
//! Everything that asks one of these questions asks it here, so that one answer holds everywhere.
#![warn(missing_docs)]

pub mod cancellation;
pub mod environment;
pub mod files;
pub mod fork;
mod interfaces;
pub mod netlink;
mod next;
pub mod output;
pub mod signals;
mod unix_sockets;
mod users;

pub use interfaces::{Interface, interfaces};
pub use next::Next;
pub use unix_sockets::{NamedSocket, UnixSockets};
pub use users::{OwnUser, Peer, map_ids, peer};
