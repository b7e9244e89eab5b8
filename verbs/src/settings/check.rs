//! Checks all settings of the environment before anything depends on them.

use super::environment_congestion;
use super::environment_priorities;
use crate::datapath::environment::environment_datapath;
use crate::device::{Device, all_devices};
use crate::environment::{
    is_any_set, is_ignored, malformed, unknown_variables, value, variable, write_to_stderr,
};
use crate::error::OpenError;
#[cfg(feature = "observe")]
use roce_observe::CHECKS;
#[cfg(not(feature = "observe"))]
use roce_trust::environment::Check;
use std::sync::Once;

/// No variable is about what the program is built without.
#[cfg(not(feature = "observe"))]
const CHECKS: [(&str, Check); 0] = [];

/// Checks every environment variable that the library reads. Creates no file and opens no device.
/// Returns an error for each wrong variable, but only for the first of those that set the datapath.
///
/// `overridden` names variables that are not checked, because an option overrides them.
pub fn check_environment(overridden: &[&str]) -> Vec<OpenError> {
    type OwnCheck = fn() -> Result<(), OpenError>;
    let checks: &[(&str, OwnCheck)] = &[
        ("ROCE_DEVICES", check_devices),
        // The variables that set the datapath. No option overrides them, so they need no name here.
        ("", || environment_datapath().map(drop)),
        #[cfg(feature = "faults")]
        ("ROCE_FAULTS", || {
            Ok(roce_faults::environment_faults().map(drop)?)
        }),
        ("ROCE_CC", || environment_congestion().map(drop)),
        ("ROCE_QOS", || environment_priorities().map(drop)),
        ("ROCE_VENDOR_PART_ID", check_vendor_part_id),
        ("ROCE_TIE_MEMORY", check_tie_memory),
    ];
    let is_checked = |name: &str| !overridden.contains(&name);
    let own = checks.iter().filter(|(name, _)| is_checked(name));
    let observed = CHECKS.iter().filter(|(name, _)| is_checked(name));
    own.filter_map(|(_, check)| check().err())
        .chain(observed.filter_map(|(_, check)| check().err().map(OpenError::from)))
        .collect()
}

/// Whether `ROCE_DEVICES` names only devices that exist. A device to leave out need not exist: one setting
/// serves many machines and containers.
fn check_devices() -> Result<(), OpenError> {
    const VARIABLE: &str = "ROCE_DEVICES";
    let Some(names) = value(VARIABLE) else {
        return Ok(());
    };
    let value = names.to_string_lossy().into_owned();
    if value.starts_with('^') {
        return Ok(());
    }
    let all = all_devices()?;
    let is_missing = |name: &&str| !all.iter().any(|device| device.is_among(name));
    let Some(missing) = value.split(',').find(is_missing) else {
        return Ok(());
    };
    let devices = match all.len() {
        0 => "there is no device: no interface is up and has an address".to_owned(),
        _ => {
            let known: Vec<_> = all.iter().map(Device::name).collect();
            format!(
                "there are: {}. An interface is a device while it is up and has an address",
                known.join(", ")
            )
        }
    };
    let error = format!("no device is named {missing:?}; {devices}");
    Err(malformed(VARIABLE, names, error))
}

/// Only the library for C programs reads it, not this crate.
fn check_vendor_part_id() -> Result<(), OpenError> {
    variable("ROCE_VENDOR_PART_ID", |text| {
        let number: Result<u32, _> = text.parse();
        number.map_err(|_| "it must be a number, 0 to 4294967295".to_owned())
    })
    .map(drop)
}

/// Only the library for C programs reads it, not this crate.
fn check_tie_memory() -> Result<(), OpenError> {
    variable("ROCE_TIE_MEMORY", |text| match text {
        "0" | "1" => Ok(()),
        _ => Err("it must be 0 or 1".to_owned()),
    })
    .map(drop)
}

/// Warns on stderr, once in this process, about variables that are set and that nothing reads. In a
/// program with more rights than its caller, those are all.
pub fn warn_of_unknown_variables() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_ignored() {
            if is_any_set() {
                write_to_stderr(
                    "roce: the variables ROCE_... are ignored: this program has more rights than \
                     the user who started it (setuid, or capabilities of its file)\n",
                );
            }
            return;
        }
        for unknown in unknown_variables() {
            write_to_stderr(&format!("roce: warning: {unknown}\n"));
        }
    });
}

/// Prints on stderr, once in this process, the errors in the environment, for C programs, which get
/// only an error number.
pub fn report_environment() {
    static ONCE: Once = Once::new();
    warn_of_unknown_variables();
    ONCE.call_once(|| {
        for error in check_environment(&[]) {
            write_to_stderr(&format!("roce: {error}\n"));
        }
    });
}
