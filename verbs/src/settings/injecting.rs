//! The faults that a device injects.

use super::OpenOptions;
use crate::error::OpenError;
use crate::faults::{Faults, Judge, draw_seed, environment_faults};
use roce_port::fault::FaultSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Default)]
pub(super) struct Injecting {
    faults: Option<Faults>,
    /// The faults are those of the environment, whose injections count for the whole process.
    of_process: bool,
}

impl Injecting {
    pub(super) fn from_env() -> Result<Self, OpenError> {
        Ok(Self {
            faults: environment_faults()?,
            of_process: true,
        })
    }
}

impl OpenOptions {
    /// Injects faults into the packets that arrive at the device, and makes the failures happen that
    /// are injected. Injections about calls affect only calls of the C API, see
    /// [`CallJudge`](crate::faults::CallJudge). The QPs, completions, regions and requests that
    /// injections count are those of the context.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.injecting.faults = Some(faults);
        self.injecting.of_process = false;
        self
    }

    /// The faults of a new context, if the options have any, and what decides which injections
    /// strike. Each context of the process has a seed of its own for faults of the network; otherwise
    /// all would lose the same packets.
    pub(crate) fn injected(&self) -> Result<Option<(Faults, Arc<Judge>)>, OpenError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let Some(faults) = &self.injecting.faults else {
            return Ok(None);
        };
        let seed = match faults.network().seed {
            Some(seed) => seed,
            None => draw_seed().map_err(OpenError::system("drawing a random seed for faults"))?,
        };
        let of_process = match self.injecting.of_process {
            true => Judge::from_environment()?,
            false => None,
        };
        let judge = of_process.unwrap_or_else(|| Judge::new(faults.clone(), seed));
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let network = FaultSpec {
            seed: Some(seed.wrapping_add(number)),
            ..*faults.network()
        };
        let injections = faults.injections().iter().cloned();
        let faults = injections.fold(Faults::from(network), Faults::inject);
        Ok(Some((faults, judge)))
    }
}
