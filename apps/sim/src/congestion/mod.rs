//! Experiments with congestion control: the unmodified stack on every host, switches that mark and
//! pause, and the flows' shares of the links.
//!
//! - [`Scenario`]: a network, flows, and a duration; [`catalogue`] has those of
//!   `docs/generated/congestion.md`.
//! - [`run`]: runs a scenario, in virtual time, from a seed.
//! - [`Outcome`]: the flows' rates, the queue lengths, and curves of both.

mod catalogue;
mod error;
mod flow;
mod measure;
mod mix;
mod network;
mod outcome;
mod run;
mod scenario;
mod snapshots;
mod topology;

#[cfg(test)]
mod tests;

pub use catalogue::{catalogue, incast, ns3_parameters};
pub use error::RunError;
pub use mix::{WEB_SEARCH, all_to_all, web_search};
pub use outcome::{Completion, Outcome, Phase, Row, Times, jain, percentile};
pub use run::run;
pub use scenario::{Algorithm, FlowPlan, Scenario};
pub use topology::{Loss, Topology};
