//! Settings from the environment: the variables, their values, and checks of the values.

mod names;
mod unknown;
mod variables;

pub use names::BOARD_ID;
pub(crate) use names::{GivenNames, default_name, unknown_device};
pub(crate) use unknown::is_any_set;
pub use unknown::{UnknownVariable, unknown_variables};
pub use variables::{ReadBy, VARIABLES, Variable};

pub(crate) use roce_trust::environment::{is_ignored, variable as value};
pub(crate) use roce_trust::output::write_to_stderr;

use crate::error::OpenError;
use roce_trust::environment::Malformed;
use std::ffi::OsStr;
use std::fmt::Display;
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

/// The error of a variable's value.
pub(crate) fn malformed(
    variable: &'static str,
    value: impl AsRef<OsStr>,
    error: impl ToString,
) -> OpenError {
    Malformed::new(variable, value, error).into()
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
