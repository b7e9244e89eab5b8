//! A network of NICs in virtual time, and what to do with one.
//!
//! - [`congestion`]: what flows get of links that they share.
//! - [`fabric`]: hosts, links and switches, stepped from event to event. One seed
//!   gives the same run again, bit for bit.
//! - [`oracle`]: what the verbs promise, as a model that knows nothing of how the
//!   stack keeps it.
//! - [`swarm`]: runs drawn from seeds, the oracle watching, and what is left of a
//!   failing run when everything is taken away that it does not need.
//!
//! Nothing here does I/O or reads a clock.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod congestion;
pub mod connect;
pub mod dice;
pub mod fabric;
pub mod oracle;
pub mod swarm;
