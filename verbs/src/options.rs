//! How a device is opened.

use crate::context::Context;
use crate::datapath::{DatapathOptions, environment_datapath};
use crate::device::Device;
use crate::error::OpenError;
use crate::faults::{draw_seed, environment_faults};
use roce_stack::fault::{FaultLayer, FaultSpec};
use std::sync::atomic::{AtomicU64, Ordering};

/// How to open a [`Device`]. [`Device::open`] takes what [`OpenOptions::from_env`]
/// gives.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use roce_verbs::{Device, OpenOptions};
///
/// let context = OpenOptions::new()
///     .faults("loss=1%,seed=7".parse()?)
///     .open(&Device::named("roce_eth0")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    faults: Option<FaultSpec>,
    datapath: DatapathOptions,
}

impl OpenOptions {
    /// Nothing out of the ordinary.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the environment asks for: `ROCE_FAULTS`, `ROCE_DATAPATH`, `ROCE_XDP_MODE`,
    /// `ROCE_XDP_QUEUES`.
    ///
    /// # Errors
    /// If a variable's value is malformed.
    pub fn from_env() -> Result<Self, OpenError> {
        Ok(Self {
            faults: environment_faults()?,
            datapath: environment_datapath()?,
        })
    }

    /// Lets packets that arrive at the device suffer faults.
    pub fn faults(mut self, spec: FaultSpec) -> Self {
        self.faults = Some(spec);
        self
    }

    /// How packets are to get to the network and back.
    pub fn datapath(mut self, options: DatapathOptions) -> Self {
        self.datapath = options;
        self
    }

    pub(crate) fn datapath_options(&self) -> &DatapathOptions {
        &self.datapath
    }

    /// Opens the device.
    ///
    /// # Errors
    /// If the operating system refuses a thread or a descriptor, or the datapath asked
    /// for can't be had.
    pub fn open(&self, device: &Device) -> Result<Context, OpenError> {
        Context::open(device, self)
    }

    /// The layer of faults for one more context, if there are to be any. Contexts of
    /// one process have a seed each, or they would all lose the same packets.
    pub(crate) fn fault_layer(&self) -> Result<Option<FaultLayer>, OpenError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let Some(spec) = self.faults else {
            return Ok(None);
        };
        let seed = match spec.seed {
            Some(seed) => seed,
            None => draw_seed().map_err(|source| OpenError::System {
                what: "drawing a random seed for faults",
                source,
            })?,
        };
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Some(FaultLayer::new(spec, seed.wrapping_add(number))))
    }
}
