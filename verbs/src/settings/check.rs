//! Checks all settings of the environment before anything depends on them.

use super::{environment_congestion, environment_priorities, environment_vendor_part_id};
use crate::datapath::environment::environment_datapath;
use crate::device::{Device, all_devices, given_names};
use crate::environment::{
    is_any_set, is_ignored, malformed, unknown_device, unknown_variables, value, variable,
    write_to_stderr,
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
/// `overridden` names variables that are not checked, because an option overrides them. An option that
/// overrides `ROCE_DEVICES` has to be checked with [`check_device_names`].
pub fn check_environment(overridden: &[&str]) -> Vec<OpenError> {
    type OwnCheck = fn() -> Result<(), OpenError>;
    let checks: &[(&str, OwnCheck)] = &[
        ("ROCE_DEVICES", check_devices),
        // Its check depends on the value of this variable.
        ("ROCE_DEVICES", check_environment_device_names),
        // The variables that set the datapath. No option overrides them, so they need no name here.
        ("", || environment_datapath().map(drop)),
        #[cfg(feature = "faults")]
        ("ROCE_FAULTS", || {
            Ok(roce_faults::environment_faults().map(drop)?)
        }),
        ("ROCE_CC", || environment_congestion().map(drop)),
        ("ROCE_QOS", || environment_priorities().map(drop)),
        ("ROCE_VENDOR_PART_ID", || {
            environment_vendor_part_id().map(drop)
        }),
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
    let known: Vec<_> = all.iter().map(Device::name).collect();
    Err(malformed(VARIABLE, names, unknown_device(missing, &known)))
}

fn check_environment_device_names() -> Result<(), OpenError> {
    let devices = value("ROCE_DEVICES").map(|names| names.to_string_lossy().into_owned());
    check_device_names(devices.as_deref())
}

/// Whether each name of `ROCE_DEVICE_NAMES` can be given to a device that the program uses. `devices` is
/// the value of `ROCE_DEVICES`, or of an option that overrides it.
///
/// # Errors
/// If a name can't be given, or the system can't list the interfaces.
pub fn check_device_names(devices: Option<&str>) -> Result<(), OpenError> {
    const VARIABLE: &str = "ROCE_DEVICE_NAMES";
    let Some(value) = value(VARIABLE) else {
        return Ok(());
    };
    let all = all_devices()?;
    let given = given_names(&all);
    let is_used = |device: &Device| devices.is_none_or(|devices| device.is_among(devices));
    let named = given.names.iter().filter_map(|(place, _)| all.get(*place));
    let unused = named.into_iter().find(|device| !is_used(device));
    let unused = unused.map(|device| {
        format!(
            "the program does not use {} ({}), which it names: ROCE_DEVICES selects {:?}",
            device.name(),
            device.interface().name,
            devices.unwrap_or_default(),
        )
    });
    match given.fault.or(unused) {
        Some(fault) => Err(malformed(VARIABLE, value, fault)),
        None => Ok(()),
    }
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
