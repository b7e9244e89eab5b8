//! Lanes: RoCE packets between two open devices on one host, in rings of shared memory.
//!
//! Two processes on one host that use UDP sockets hand each packet to the kernel twice. If both belong to
//! one user and have their addresses in one network namespace, their packets take a lane instead. An RNIC
//! loops such packets back inside itself.
//!
//! - A **lane** carries packets in one direction: from an open device to the one whose QPs have the numbers
//!   of one [`QpnRange`](roce_stack::QpnRange), at one address.
//! - The sender creates a [`ring`] in a memfd that cannot be resized, and hands it to the receiver
//!   through [`Neighbours`](roce_port::Neighbours): the kernel vouches for the user on both sides.
//! - [`Lanes`] is a [`Layer`](roce_port::Layer) around the port that sends all other packets. Once
//!   packets to a device have taken one way, they keep to it, until that device is gone.
//! - While both ends poll, they make no system calls. A receiver that sleeps has set a flag, and the
//!   sender that finds the flag rings the doorbell that the receiver has given it.
//!
//! Each end validates what it reads from the memory: the other one may be any program of the same user.
#![warn(missing_docs)]

#[doc(hidden)]
pub mod counters;
#[cfg(not(loom))]
mod doorbell;
#[cfg(all(any(test, fuzzing), not(loom)))]
#[doc(hidden)]
pub mod hostile;
#[cfg(not(loom))]
mod inbox;
#[cfg(not(loom))]
mod lanes;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
pub mod ring;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use inbox::Inbox;
#[cfg(not(loom))]
pub use lanes::{LaneConfig, Lanes};
