//! Random runs drawn from seeds and checked by the oracle.
//!
//! A seed determines a [`Plan`]: a topology, connections with their attributes, the requests of
//! each end, faults and their times, and disruptive actions of applications. [`run()`] carries it
//! out. [`shrink()`] reduces a failing plan to the parts that it needs to fail.

mod cm;
mod completions;
mod cqs;
mod disrupt;
mod draw;
mod end;
mod finish;
mod memory;
mod multicast;
mod outcome;
mod pages;
mod paths;
mod plan;
mod pools;
mod post;
mod regions;
mod request;
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
    Action, CableFault, Change, CqPlan, DatagramPlan, Disruption, FaultPlan, Kind, MemberPlan,
    Membership, MulticastPlan, Op, PairPlan, Plan, RequestFault, SenderPlan, SrqPlan, WindowPlan,
};
pub use run::{run, run_printing};
pub use shrink::{Shrunk, shrink};
