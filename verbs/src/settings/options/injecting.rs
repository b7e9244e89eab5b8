//! Options for faults.

use super::OpenOptions;
use crate::error::OpenError;
use roce_faults::{FaultSpec, Faults, Judge, draw_seed, environment_faults};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    faults: Option<Faults>,
    /// The faults are those of the environment, whose injections count for the whole process.
    is_of_process: bool,
}

impl Options {
    pub(super) fn from_env() -> Result<Self, OpenError> {
        Ok(Self {
            faults: environment_faults()?,
            is_of_process: true,
        })
    }
}

impl OpenOptions {
    /// Injects faults into the packets that arrive at the device, and makes the failures happen that
    /// are injected. Injections about calls affect only calls of the C API, see
    /// [`CallJudge`](crate::faults::CallJudge). The QPs, completions, regions and requests that
    /// injections count are those of the context.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.injecting = Options {
            faults: Some(faults),
            is_of_process: false,
        };
        self
    }

    /// The faults of the network for a new context. Each context of the process has a seed of its
    /// own; otherwise all would lose the same packets.
    pub(crate) fn network_faults(&self) -> Result<Option<FaultSpec>, OpenError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let Some(faults) = &self.injecting.faults else {
            return Ok(None);
        };
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Some(FaultSpec {
            seed: Some(seed_of(faults)?.wrapping_add(number)),
            ..*faults.network()
        }))
    }

    /// The judge of a new context's injections, if the options have any.
    pub(crate) fn judge(&self) -> Result<Option<Arc<Judge>>, OpenError> {
        match &self.injecting.faults {
            Some(_) if self.injecting.is_of_process => Ok(Judge::from_environment()?),
            Some(faults) if !faults.injections().is_empty() => {
                Ok(Some(Judge::new(faults.clone(), seed_of(faults)?)))
            }
            _ => Ok(None),
        }
    }
}

/// The seed of faults, drawn if they have none.
fn seed_of(faults: &Faults) -> Result<u64, OpenError> {
    match faults.network().seed {
        Some(seed) => Ok(seed),
        None => draw_seed().map_err(OpenError::system("drawing a random seed for faults")),
    }
}
