//! The runtime of an open device: the NIC and its port behind one lock, the thread that drives
//! them, and the clock.
//!
//! It does not know the objects that are made from a device: those are built on it.

mod announce;
mod clock;
mod device_state;
mod driver;
mod engine;
mod moderation;
mod monitor;
mod spin;
mod start;
mod wait;

pub(crate) use announce::Announcements;
pub(crate) use clock::DeviceClock;
pub(crate) use device_state::DeviceState;
pub(crate) use driver::spawn as spawn_driver;
pub(crate) use engine::{Engine, MadListener};
pub(crate) use monitor::Monitor;
pub(crate) use start::{Starter, limits};
