//! Power cuts: a host with durable memory loses its power at a random time of a random run, and
//! starts again with what its disks have.
//!
//! Its peer writes, flushes to persistence, and counts by ATOMIC WRITE, over links with faults. The
//! disks take their time, and write other sectors whenever they like. What a FLUSH acknowledged must
//! be on the disk after the cut, and an ATOMIC WRITE only with what was flushed before it.

mod disk;
mod model;
mod run;

#[cfg(test)]
mod tests;

pub use model::{Model, SLOT, WORD};
pub use run::{Outcome, run};
