//! All settings of the environment, checked before anything depends on them.

use super::environment_congestion;
use super::environment_faults;
use super::environment_metrics;
use super::environment_priorities;
use crate::capture::check_capture_setting;
use crate::datapath::environment::environment_datapath;
use crate::device::{Device, all_devices};
use crate::environment::{unknown_variables, value, variable};
use crate::error::OpenError;
use std::io::Write as _;
use std::sync::Once;

/// Checks every variable of the environment that the library reads. No file is made and no
/// device is opened. Returns what is wrong, one error for each variable.
///
/// `overridden` names variables whose value does not matter, since an option says something
/// else.
pub fn check_environment(overridden: &[&str]) -> Vec<OpenError> {
    type Check = fn() -> Result<(), OpenError>;
    let checks: [(&str, Check); 8] = [
        ("ROCE_DEVICES", check_devices),
        // And the other variables of the datapath, which no option overrides.
        ("", || environment_datapath().map(drop)),
        ("ROCE_FAULTS", || environment_faults().map(drop)),
        ("ROCE_CC", || environment_congestion().map(drop)),
        ("ROCE_QOS", || environment_priorities().map(drop)),
        ("ROCE_PCAP", check_capture_setting),
        ("ROCE_METRICS", || environment_metrics().map(drop)),
        ("ROCE_VENDOR_PART_ID", check_vendor_part_id),
    ];
    checks
        .into_iter()
        .filter(|(name, _)| !overridden.contains(name))
        .filter_map(|(_, check)| check().err())
        .collect()
}

/// Whether `ROCE_DEVICES` names devices that there are.
fn check_devices() -> Result<(), OpenError> {
    const VARIABLE: &str = "ROCE_DEVICES";
    let Some(names) = value(VARIABLE) else {
        return Ok(());
    };
    let value = names.to_string_lossy().into_owned();
    let all = all_devices();
    let is_missing = |name: &&str| !all.iter().any(|device| device.is_among(name));
    let Some(missing) = value.split(',').find(is_missing) else {
        return Ok(());
    };
    let there = match all.len() {
        0 => "there is no device: no interface is up and has an address".to_owned(),
        _ => {
            let known: Vec<_> = all.iter().map(Device::name).collect();
            format!(
                "there are: {}. An interface is a device while it is up and has an address",
                known.join(", ")
            )
        }
    };
    Err(OpenError::Environment {
        variable: VARIABLE,
        error: format!("no device is named {missing:?}; {there}"),
        value,
    })
}

/// The library of C programs reads it, and nothing in this crate.
fn check_vendor_part_id() -> Result<(), OpenError> {
    variable("ROCE_VENDOR_PART_ID", |text| {
        let number: Result<u32, _> = text.parse();
        number.map_err(|_| "it must be a number, 0 to 4294967295".to_owned())
    })
    .map(drop)
}

/// Says on stderr which variables are set that nothing reads, once in this process.
pub fn warn_of_unknown_variables() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        for unknown in unknown_variables() {
            say(&format!("roce: warning: {unknown}\n"));
        }
    });
}

/// Says on stderr what is wrong with the environment, once in this process: for programs in C,
/// which see no more of it than the number of an error.
pub fn report_environment() {
    static SAID: Once = Once::new();
    warn_of_unknown_variables();
    SAID.call_once(|| {
        for error in check_environment(&[]) {
            say(&format!("roce: {error}\n"));
        }
    });
}

/// Writes in one piece: other processes may write to the same stderr.
fn say(line: &str) {
    // Nothing is left to report an error to.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
