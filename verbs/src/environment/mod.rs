//! Settings that the environment gives: which there are, what they say, and whether it is right.

mod unknown;
mod variables;

pub use unknown::{UnknownVariable, unknown_variables};
pub use variables::{ReadBy, VARIABLES, Variable};

use crate::error::OpenError;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;

/// The value of a variable. An empty one is as none: shells and CI systems have no other way to
/// take back what was set before.
pub(crate) fn value(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// What a variable asks for, as `parse` understands it, if it is set.
pub(crate) fn variable<T>(
    variable: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    let value = value(variable);
    understood(
        variable,
        value.map(|value| value.to_string_lossy().into_owned()),
        parse,
    )
}

/// What a variable with this value asks for.
pub(crate) fn understood<T>(
    variable: &'static str,
    value: Option<String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, OpenError> {
    let Some(value) = value else {
        return Ok(None);
    };
    match parse(&value) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(error) => Err(OpenError::Environment {
            variable,
            value,
            error,
        }),
    }
}

/// What a text says, or with `@FILE` what the file says.
pub(crate) fn text_or_file<T>(text: &str) -> Result<T, String>
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
