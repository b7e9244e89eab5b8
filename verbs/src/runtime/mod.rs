//! What runs an open device: the NIC and its port behind one lock, the thread that drives them, and
//! the clock.

mod announce;
mod clock;
pub(crate) mod driver;
mod engine;
mod moderation;
mod monitor;
pub(crate) mod start;

pub(crate) use announce::Announcements;
pub(crate) use clock::DeviceClock;
pub(crate) use engine::Engine;
pub(crate) use monitor::Monitor;
