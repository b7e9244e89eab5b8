//! Fault injection: network faults, and failures of calls, completions and events.
//!
//! [`Faults`] describes the faults. Its text form, documented in docs/test-your-program.md, is the value of
//! `ROCE_FAULTS`. The same [`Faults`] with the same seed strike the same calls and completions, as long
//! as the program makes them in the same order.
//!
//! ```
//! use roce_faults::{CompletionFault, FaultSpec, Faults, Injection, Operation};
//! use roce_stack::WcStatus;
//!
//! let text = "loss=1%,write:RETRY_EXC_ERR@5,seed=7";
//! let faults: Faults = text.parse().unwrap();
//! assert_eq!(faults.to_string(), text);
//!
//! let fault = CompletionFault::Status(WcStatus::RetryExceeded);
//! let built = Faults::from("loss=1%,seed=7".parse::<FaultSpec>().unwrap())
//!     .inject(Injection::completion(Operation::Write, fault).at(5));
//! assert_eq!(built, faults);
//! ```
//!
//! | faults of | are described by | strike in |
//! |---|---|---|
//! | the network | [`FaultSpec`] | [`FaultLayer`], around a [`Port`](roce_port::Port); [`FaultModel`], for a simulator with an event queue of its own |
//! | the link | [`TimedFault`] | [`LinkGate`], around a port |
//! | completions, regions | [`Injection`] | [`DeviceFaults`], [`FaultyCompletions`] |
//! | connection requests | [`Injection`] | [`ConnectionJudge`] |
//! | events, the device | [`TimedFault`] | [`TimedFaults`] |
//! | calls of the C API | [`Injection`] | [`CallJudge`] |
#![warn(missing_docs)]

mod calls;
mod chance;
mod completions;
mod device;
mod environment;
mod injection;
mod judge;
mod layer;
mod link;
mod model;
mod names;
mod network;
mod parse;
mod requests;
mod strike;
#[cfg(test)]
mod tests;
mod timed;

pub use calls::CallJudge;
pub use chance::{Chance, splitmix64};
pub use completions::{CompletionFate, CompletionFaults, FaultyCompletions};
pub use device::DeviceFaults;
pub use environment::{draw_seed, environment_faults};
pub use injection::{
    Call, CallFault, CompletionFault, Injection, Operation, RequestFault, Target, TimedFault, When,
};
pub use judge::Judge;
pub use layer::{FaultCounters, FaultLayer};
pub use link::{Link, LinkGate};
pub use model::{Arrival, Arrivals, FaultModel};
pub use names::CALLS;
pub use network::{Burst, FaultSpec, ReorderBy};
pub use parse::FaultsError;
pub use requests::ConnectionJudge;
pub use timed::{TimedAction, TimedFaults};

/// The faults to inject: network faults and injections. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    network: FaultSpec,
    injections: Vec<Injection>,
}

impl Faults {
    /// No faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the seed of all randomness. Without a seed, the code that opens the device draws one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.network.seed = Some(seed);
        self
    }

    /// Adds an injection.
    pub fn inject(mut self, injection: Injection) -> Self {
        self.injections.push(injection);
        self
    }

    /// The network faults and the seed.
    pub fn network(&self) -> &FaultSpec {
        &self.network
    }

    /// The injections.
    pub fn injections(&self) -> &[Injection] {
        &self.injections
    }
}

impl From<FaultSpec> for Faults {
    fn from(network: FaultSpec) -> Self {
        Self {
            network,
            injections: Vec::new(),
        }
    }
}
