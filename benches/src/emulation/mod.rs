//! The emulated network beside the simulated one, and the limits of the emulator.
//!
//! - [`Incast`]: eight hosts that send to a ninth one, the same for both.
//! - [`virtual_time`]: the incast as `roce sim` runs it.
//! - [`real_time`]: the incast as `roce fabric` runs it, with programs of perftest.
//! - [`limits`]: the most packets per second, and the latency that the emulator adds.

mod incast;
pub mod limits;
pub mod real_time;
mod table;
pub mod virtual_time;

pub use incast::{Figures, Incast};
pub use table::table;
