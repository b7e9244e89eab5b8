//! The capture that the environment enables.

use roce_capture::Capture;
use roce_trust::environment::{Malformed, Once, variable, variable_once};
use roce_trust::output::write_to_stderr;

const VARIABLE: &str = "ROCE_PCAP";

/// The capture that `ROCE_PCAP` enables, if it is set. A process has one capture, created by the
/// first call, which prints its path and limits on stderr. The file's name may differ from the
/// variable's value, see [`Capture::from_setting`]; [`Capture::path`] returns it.
///
/// # Errors
/// If the file can't be created.
pub fn environment_capture() -> Result<Option<Capture>, Malformed> {
    static CAPTURE: Once<Capture> = Once::new();
    variable_once(&CAPTURE, VARIABLE, |name| {
        let capture = Capture::from_setting(name).map_err(|error| error.to_string())?;
        announce(&capture);
        Ok(capture)
    })
}

fn announce(capture: &Capture) {
    let (path, limits) = (capture.path().display(), capture.limits());
    write_to_stderr(&format!("roce: capturing to {path}, {limits}\n"));
}

/// Checks that `ROCE_PCAP` is well-formed and its folder exists. Creates no file.
///
/// # Errors
/// If the value is malformed or the folder does not exist.
pub(crate) fn check_capture_setting() -> Result<(), Malformed> {
    let Some(name) = variable(VARIABLE) else {
        return Ok(());
    };
    Capture::check(&name).map_err(|error| Malformed::new(VARIABLE, &name, error))
}
