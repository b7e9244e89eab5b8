//! Fault injection: network faults, and failures of calls, completions and events.
//!
//! [`Faults`] describes the faults. Its text form, documented in docs/test-your-program.md, is the value of
//! `ROCE_FAULTS`. The same [`Faults`] with the same seed strike the same calls and completions, as long
//! as the program makes them in the same order.
//!
//! ```
//! use roce_verbs::faults::{CompletionFault, Faults, Injection, Operation};
//! use roce_verbs::completion::WcStatus;
//!
//! let text = "loss=1%,write:RETRY_EXC_ERR@5,seed=7";
//! let faults: Faults = text.parse().unwrap();
//! assert_eq!(faults.to_string(), text);
//!
//! let fault = CompletionFault::Status(WcStatus::RetryExceeded);
//! let built = Faults::from("loss=1%,seed=7".parse::<roce_verbs::settings::FaultSpec>().unwrap())
//!     .inject(Injection::completion(Operation::Write, fault).at(5));
//! assert_eq!(built, faults);
//! ```
//!
//! - [`injection`](self) has the injections, [`names`](self) the names of calls, errors and statuses.
//! - Each device applies its injections to its completions; the engine carries out the timed ones.
//! - [`CallJudge`] is for the library for C programs.

mod calls;
mod completions;
mod environment;
mod injection;
mod judge;
mod names;
mod parse;
mod requests;
mod strike;
#[cfg(test)]
mod tests;
mod timed;

pub use calls::CallJudge;
pub use environment::environment_faults;
pub use injection::{
    Call, CallFault, CompletionFault, Injection, Operation, RequestFault, Target, TimedFault, When,
};
pub use names::CALLS;
pub use parse::FaultsError;
pub use roce_port::fault::splitmix64;

pub(crate) use completions::ContextFaults;
pub(crate) use environment::draw_seed;
pub(crate) use judge::Judge;
pub(crate) use requests::ConnectionJudge;
pub(crate) use timed::{TimedAction, TimedFaults};

use roce_port::fault::FaultSpec;

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
