//! Faults from the environment.

use crate::Faults;
use roce_trust::environment::{Malformed, Once, variable_once};

/// The faults that `ROCE_FAULTS` sets, if any. Without a seed, one is drawn once per process, so that all
/// callers report the same seed.
///
/// # Errors
/// If the value is malformed.
pub fn environment_faults() -> Result<Option<Faults>, Malformed> {
    static FAULTS: Once<Faults> = Once::new();
    variable_once(&FAULTS, "ROCE_FAULTS", |text| {
        parse(&text.to_string_lossy())
    })
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
///
/// # Errors
/// If the system has no random numbers.
pub fn draw_seed() -> std::io::Result<u64> {
    getrandom::u32()
        .map(u64::from)
        .map_err(|error| std::io::Error::other(error.to_string()))
}
