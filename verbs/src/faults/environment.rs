//! Faults from the environment.

use super::Faults;
use crate::environment;
use crate::error::OpenError;
use std::sync::OnceLock;

/// The variable that enables faults.
const VARIABLE: &str = "ROCE_FAULTS";

/// The faults that `ROCE_FAULTS` sets, if any. Without a seed, one is drawn once per process, so that all
/// callers report the same seed.
///
/// # Errors
/// If the value is malformed.
pub fn environment_faults() -> Result<Option<Faults>, OpenError> {
    static FAULTS: OnceLock<Result<Option<Faults>, (String, String)>> = OnceLock::new();
    let read = || match environment::value(VARIABLE) {
        None => Ok(None),
        Some(value) => {
            let text = value.to_string_lossy();
            let describe = |error: String| (text.clone().into_owned(), error);
            parse(&text).map(Some).map_err(describe)
        }
    };
    FAULTS
        .get_or_init(read)
        .clone()
        .map_err(|(value, error)| OpenError::Environment {
            variable: VARIABLE,
            value,
            error,
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
pub(crate) fn draw_seed() -> std::io::Result<u64> {
    getrandom::u32()
        .map(u64::from)
        .map_err(|error| std::io::Error::other(error.to_string()))
}
