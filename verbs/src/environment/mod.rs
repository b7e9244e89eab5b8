//! Settings from the environment: the variables, their values, and checks of the values.

mod unknown;
mod variables;

pub(crate) use unknown::is_any_set;
pub use unknown::{UnknownVariable, unknown_variables};
pub use variables::{ReadBy, VARIABLES, Variable};

pub(crate) use roce_trust::environment::{is_ignored, variable as value};

use crate::error::OpenError;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::Write as _;
use std::str::FromStr;

/// The value of a variable, parsed by `parse`, if it is set.
pub(crate) fn variable<T>(
    variable: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    let value = value(variable);
    parse_value(
        variable,
        value.map(|value| value.to_string_lossy().into_owned()),
        parse,
    )
}

/// The value that the first call of the process makes of a variable, if it is set, for the calls after it. An
/// error is kept with the variable's value.
#[cfg(any(feature = "faults", feature = "observe"))]
pub(crate) type Once<T> = std::sync::OnceLock<Result<Option<T>, (String, String)>>;

/// As [`variable`], but `make` is called once in the process.
#[cfg(any(feature = "faults", feature = "observe"))]
pub(crate) fn variable_once<T: Clone>(
    once: &Once<T>,
    variable: &'static str,
    make: impl FnOnce(&OsStr) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    let make = || match value(variable) {
        None => Ok(None),
        Some(value) => make(&value)
            .map(Some)
            .map_err(|error| (value.to_string_lossy().into_owned(), error)),
    };
    let made = once.get_or_init(make).clone();
    made.map_err(|(value, error)| malformed(variable, value, error))
}

/// The error of a variable's value.
pub(crate) fn malformed(
    variable: &'static str,
    value: impl AsRef<OsStr>,
    error: impl ToString,
) -> OpenError {
    OpenError::Environment {
        variable,
        value: value.as_ref().to_string_lossy().into_owned(),
        error: error.to_string(),
    }
}

/// A variable's value, parsed by `parse`.
pub(crate) fn parse_value<T>(
    variable: &'static str,
    value: Option<String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    let Some(value) = value else {
        return Ok(None);
    };
    parse(&value)
        .map(Some)
        .map_err(|error| malformed(variable, value, error))
}

/// Parses `text`, or, if it is `@FILE`, the file's contents.
pub(crate) fn parse_text_or_file<T>(text: &str) -> Result<T, String>
where
    T: FromStr<Err: Display>,
{
    let Some(file) = text.strip_prefix('@') else {
        return text.parse().map_err(|error: T::Err| error.to_string());
    };
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("reading {file:?}: {error}"))?;
    text.parse()
        .map_err(|error: T::Err| format!("in {file:?}, {error}"))
}

/// Writes `line` in one call, because other processes may write to the same stderr.
pub(crate) fn write_to_stderr(line: &str) {
    // If stderr fails, there is nowhere to report it.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
