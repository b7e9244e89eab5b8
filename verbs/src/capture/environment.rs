//! The capture that the environment enables.

use crate::environment::{self, malformed, write_to_stderr};
use crate::error::OpenError;
use roce_capture::Capture;
use roce_trust::environment::{Once, variable_once};

const VARIABLE: &str = "ROCE_PCAP";

/// The capture that `ROCE_PCAP` enables, if it is set. A process has one capture, created by the
/// first call, which prints its path and limits on stderr. The file's name may differ from the
/// variable's value, see [`Capture::from_setting`]; [`Capture::path`] returns it.
///
/// # Errors
/// If the file can't be created.
pub fn environment_capture() -> Result<Option<Capture>, OpenError> {
    static CAPTURE: Once<Capture> = Once::new();
    let capture = variable_once(&CAPTURE, VARIABLE, |name| {
        let capture = Capture::from_setting(name).map_err(|error| error.to_string())?;
        announce(&capture);
        Ok(capture)
    });
    Ok(capture?)
}

fn announce(capture: &Capture) {
    let (path, limits) = (capture.path().display(), capture.limits());
    write_to_stderr(&format!("roce: capturing to {path}, {limits}\n"));
}

/// Checks that `ROCE_PCAP` is well-formed and its folder exists. Creates no file.
///
/// # Errors
/// If the value is malformed or the folder does not exist.
pub(crate) fn check_capture_setting() -> Result<(), OpenError> {
    let Some(name) = environment::value(VARIABLE) else {
        return Ok(());
    };
    Capture::check(&name).map_err(|error| malformed(VARIABLE, &name, error))
}
