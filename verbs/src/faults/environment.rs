//! Faults from the environment.

use super::Faults;
use crate::environment::{self, Once};
use crate::error::OpenError;

const VARIABLE: &str = "ROCE_FAULTS";

/// The faults that `ROCE_FAULTS` sets, if any. Without a seed, one is drawn once per process, so that all
/// callers report the same seed.
///
/// # Errors
/// If the value is malformed.
pub fn environment_faults() -> Result<Option<Faults>, OpenError> {
    static FAULTS: Once<Faults> = Once::new();
    environment::variable_once(&FAULTS, VARIABLE, |text| parse(&text.to_string_lossy()))
}

fn parse(text: &str) -> Result<Faults, String> {
    let faults: Faults = text.parse().map_err(|error| format!("{error}"))?;
    if faults.network().seed.is_some() {
        return Ok(faults);
    }
    let seed = draw_seed().map_err(|error| error.to_string())?;
    Ok(faults.seed(seed))
}

/// Draws a seed that is short enough to type.
pub(crate) fn draw_seed() -> std::io::Result<u64> {
    getrandom::u32()
        .map(u64::from)
        .map_err(|error| std::io::Error::other(error.to_string()))
}
