//! A network of NICs in virtual time, and its uses.
//!
//! - [`congestion`]: the flows' shares of links under congestion.
//! - [`fabric`]: hosts, links and switches, stepped from event to event. The same seed gives the
//!   same run, bit for bit.
//! - [`network`]: descriptions of networks, for virtual time and for real time.
//! - [`oracle`]: a model of verbs semantics, independent of the implementation.
//! - [`power_cut`]: power cuts of hosts with durable memory.
//! - [`record`]: the ports and flows of a fabric over time.
//! - [`swarm`]: random runs drawn from seeds and checked by the oracle, and the reduction of a
//!   failing run to the parts that it needs to fail.
//!
//! This crate does no I/O and reads no clock.
// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod congestion;
pub mod connect;
pub mod dice;
pub mod fabric;
pub mod network;
pub mod oracle;
pub mod power_cut;
pub mod record;
pub mod swarm;
