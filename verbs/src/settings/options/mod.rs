//! Options for opening a device.

#[cfg(feature = "faults")]
mod injecting;
#[cfg(feature = "observe")]
mod observing;

use super::environment_congestion;
use super::warn_of_unknown_variables;
use super::{PrioritySettings, environment_priorities};
use crate::datapath::DatapathOptions;
use crate::datapath::environment::environment_datapath;
use crate::error::OpenError;
use roce_stack::CongestionSettings;

/// Options for opening a [`Device`](crate::Device). [`Device::open`](crate::Device::open) uses those of [`OpenOptions::from_env`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use roce_verbs::{Device, observation::Capture, settings::OpenOptions};
///
/// let context = OpenOptions::new()
///     .faults("loss=1%,seed=7".parse()?)
///     .capture(Capture::create("run-%p.pcapng")?)
///     .open(&Device::named("roce_eth0")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    #[cfg(feature = "faults")]
    injecting: injecting::Options,
    #[cfg(feature = "observe")]
    pub(crate) observing: roce_observe::Options,
    pub(crate) datapath: DatapathOptions,
    pub(crate) congestion: CongestionSettings,
    pub(crate) priorities: PrioritySettings,
}

impl OpenOptions {
    /// The default options. They ignore the environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// The options that the environment sets: `ROCE_FAULTS`, `ROCE_PCAP`, `ROCE_DATAPATH`,
    /// `ROCE_UDP_BUFFER_MIB`, `ROCE_UDP_FLOWS`, `ROCE_UDP_SPLICE`, `ROCE_XDP_MODE`,
    /// `ROCE_XDP_QUEUES`, `ROCE_XDP_CHECKSUM`, `ROCE_XDP_PRIORITY_TAG`, `ROCE_V1`, `ROCE_CC`,
    /// `ROCE_QOS`, `ROCE_METRICS`, `ROCE_WHY`, `ROCE_WHY_PCAP`. Reports on stderr, once, each variable whose name begins with
    /// `ROCE_` and that nothing reads.
    ///
    /// # Errors
    /// If a variable's value is malformed, or the capture's file can't be created.
    pub fn from_env() -> Result<Self, OpenError> {
        warn_of_unknown_variables();
        Ok(Self {
            #[cfg(feature = "faults")]
            injecting: injecting::Options::from_env()?,
            #[cfg(feature = "observe")]
            observing: roce_observe::Options::from_env()?,
            datapath: environment_datapath()?,
            congestion: environment_congestion()?.unwrap_or_default(),
            priorities: environment_priorities()?.unwrap_or_default(),
        })
    }

    /// Chooses the datapath, and whether the device supports RoCE v1.
    pub fn datapath(mut self, options: DatapathOptions) -> Self {
        self.datapath = options;
        self
    }

    /// Sets the congestion control. The default is DCQCN with the paper's parameters.
    pub fn congestion(mut self, settings: CongestionSettings) -> Self {
        self.congestion = settings;
        self
    }

    /// Sets the traffic classes and priorities of the device's packets.
    pub fn priorities(mut self, settings: PrioritySettings) -> Self {
        self.priorities = settings;
        self
    }
}
