//! Options for opening a device, and the environment variables that set them.

mod check;
mod congestion;
mod options;
mod priorities;
mod vendor_part_id;

pub use crate::datapath::environment::environment_datapath;
pub use crate::environment::{ReadBy, UnknownVariable, VARIABLES, Variable, unknown_variables};
pub use check::{
    check_device_names, check_environment, report_environment, warn_of_unknown_variables,
};
pub use congestion::environment_congestion;
pub use options::OpenOptions;
pub use priorities::{PrioritySettings, PrioritySettingsError, environment_priorities};
#[cfg(feature = "observe")]
pub use roce_observe::{capture::environment_capture, watch::environment_metrics};
pub use roce_stack::{
    CongestionControl, CongestionSettings, CongestionSettingsError, DcqcnParameters,
    DelayParameters, DurationText, NotificationPoint,
};
pub use vendor_part_id::environment_vendor_part_id;
