//! Options for opening a device, and the environment variables that set them.

mod check;
mod congestion;
#[cfg(feature = "faults")]
mod injecting;
#[cfg(feature = "observe")]
mod metrics;
#[cfg(feature = "observe")]
mod observing;
mod options;
mod priorities;

#[cfg(feature = "observe")]
pub use crate::capture::environment_capture;
pub use crate::datapath::environment::environment_datapath;
pub use crate::environment::{ReadBy, UnknownVariable, VARIABLES, Variable, unknown_variables};
#[cfg(feature = "faults")]
pub use crate::faults::environment_faults;
pub use check::{check_environment, report_environment, warn_of_unknown_variables};
pub use congestion::environment_congestion;
#[cfg(feature = "observe")]
pub use metrics::environment_metrics;
pub use options::OpenOptions;
pub use priorities::{PrioritySettings, PrioritySettingsError, environment_priorities};
pub use roce_port::fault::{Burst, Chance, FaultSpec, FaultSpecError, ReorderBy};
pub use roce_stack::{
    CongestionControl, CongestionSettings, CongestionSettingsError, DcqcnParameters,
    DelayParameters, DurationText, NotificationPoint,
};
