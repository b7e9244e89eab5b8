//! The distribution of processor time at each end of a transfer: profiles by `perf`, as flame
//! graphs and as tables.

pub mod kinds;
pub mod record;
pub mod stacks;
pub mod svg;
