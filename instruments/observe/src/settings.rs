//! Checks of the environment variables that this crate reads.

use crate::capture::check_capture_setting;
use crate::watch::environment_metrics;
use crate::why::{check_why_packets_setting, check_why_setting};
use roce_trust::environment::Check;

/// The variables, each with a check that its value is well-formed, and that the file that it names can be
/// written or its folder exists. The checks create no file.
pub const CHECKS: [(&str, Check); 4] = [
    ("ROCE_METRICS", || environment_metrics().map(drop)),
    ("ROCE_PCAP", check_capture_setting),
    ("ROCE_WHY", check_why_setting),
    ("ROCE_WHY_PCAP", check_why_packets_setting),
];
