//! The protocol of a target, without I/O: commands go in, actions come out.
//!
//! ```text
//! Controllers                      what is offered, and the controllers that exist
//!   └─ Session, Session, …         a queue: one for each connection
//!        capsule ──► Session::handle ──► Step { action, … }
//!                    Session::fetched ◄── the data that Action::Fetch asked for
//! ```
//!
//! A session decides and never waits. The program that owns the connection carries the action out,
//! and answers the command with [`Session::respond`]. Dropping the session of an admin queue ends
//! its controller, and with it the sessions of the controller's other queues.

mod admin;
mod connect;
mod controllers;
mod io;
mod offer;
mod session;
mod step;

pub use controllers::Controllers;
pub use offer::{Limits, Offer, Shape};
pub use session::Session;
pub use step::{Action, Answer, Data, Extent, Over, Step};

#[cfg(test)]
mod tests;
