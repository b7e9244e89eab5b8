//! Runs drawn from seeds, with the oracle watching.
//!
//! A seed stands for a [`Plan`]: a topology, connections with their attributes, what
//! each end does, what goes wrong and when, and what applications do at bad moments.
//! [`run()`] carries it out; [`shrink()`] takes away from a plan that fails whatever it
//! does not need to fail.

mod act;
mod cqs;
mod draw;
mod draw_first;
mod draw_lives;
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
    Act, CqPlan, Fault, FaultPlan, Kind, Mischief, Op, PairPlan, Plan, SrqPlan, WindowPlan, Wrong,
};
pub use run::{run, run_printing};
pub use shrink::{Shrunk, shrink};
