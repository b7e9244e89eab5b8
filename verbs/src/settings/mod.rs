//! How a device is opened, and what the environment says about it.

mod check;
mod congestion;
mod faults;
mod metrics;
mod options;
mod priorities;

pub use check::{check_environment, report_environment, warn_of_unknown_variables};
pub use congestion::environment_congestion;
pub use faults::environment_faults;
pub use metrics::environment_metrics;
pub use options::OpenOptions;
pub use priorities::{PrioritySettings, PrioritySettingsError, environment_priorities};
