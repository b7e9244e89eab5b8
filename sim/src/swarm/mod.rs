//! Random runs drawn from seeds and checked by the oracle.
//!
//! A seed determines a [`Plan`]: a topology, connections with their attributes, the requests of
//! each end, faults and their times, and disruptive actions of applications. [`run()`] carries it
//! out. [`shrink()`] reduces a failing plan to what it needs to fail.

mod act;
mod cqs;
mod draw;
mod draw_first;
mod draw_lives;
mod draw_memory;
mod draw_more;
mod draw_most;
mod end;
mod look;
mod memory;
mod outcome;
mod plan;
mod pools;
mod post;
mod request;
mod rest;
mod run;
mod shrink;
mod start;
mod state;
mod windows;
mod xrc;

#[cfg(test)]
mod tests;

pub use outcome::{Outcome, Summary};
pub use plan::{
    Act, CableFault, CqPlan, FaultPlan, Kind, Mischief, Op, PairPlan, Plan, SrqPlan, WindowPlan,
    Wrong,
};
pub use run::{run, run_printing};
pub use shrink::{Shrunk, shrink};
