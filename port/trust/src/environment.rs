//! The environment variables of this project.
//!
//! A program that has more rights than the user who started it (setuid, setgid, file capabilities)
//! must not take orders from that user's environment: variables name files to read and to write,
//! and choose what peers may do. The kernel tells such a program (`AT_SECURE`), and for it all
//! variables count as unset.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::OnceLock;

/// The value of a variable; `None` if it is unset or empty, or if it [is ignored](is_ignored). Many
/// CI systems can set a variable but not unset it, so an empty value counts as unset.
pub fn variable(name: &str) -> Option<OsString> {
    if is_ignored() {
        return None;
    }
    non_empty(std::env::var_os(name))
}

fn non_empty(value: Option<OsString>) -> Option<OsString> {
    value.filter(|value| !value.is_empty())
}

/// A variable has a value that nothing can use.
#[derive(Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// The fault.
    pub error: String,
}

impl Malformed {
    /// The error of a variable's value.
    pub fn new(variable: &'static str, value: impl AsRef<OsStr>, error: impl ToString) -> Self {
        Self {
            variable,
            value: value.as_ref().to_string_lossy().into_owned(),
            error: error.to_string(),
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            variable,
            value,
            error,
        } = self;
        write!(f, "{variable} is {value:?}: {error}")
    }
}

/// Programs that use `unwrap` print that.
impl fmt::Debug for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Malformed {}

/// Checks the value of a variable.
pub type Check = fn() -> Result<(), Malformed>;

/// The value that the first call of the process parsed from a variable, if it is set. Later calls use it.
pub type Once<T> = OnceLock<Result<Option<T>, Malformed>>;

/// The value of a variable, if it is set, as `make` made it in the first call of the process.
///
/// # Errors
/// The error of `make`, each time.
pub fn variable_once<T: Clone>(
    once: &Once<T>,
    name: &'static str,
    make: impl FnOnce(&OsStr) -> Result<T, String>,
) -> Result<Option<T>, Malformed> {
    let make = || {
        let value = variable(name);
        value
            .map(|value| make(&value).map_err(|error| Malformed::new(name, &value, error)))
            .transpose()
    };
    once.get_or_init(make).clone()
}

/// Whether this process ignores all variables, because it got more rights than its caller when it
/// was started.
pub fn is_ignored() -> bool {
    // SAFETY: the call only returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(non_empty(None), None);
        assert_eq!(non_empty(Some("".into())), None);
        assert_eq!(non_empty(Some("0".into())), Some("0".into()));
    }

    #[test]
    fn an_ordinary_program_reads_its_environment() {
        assert!(!is_ignored());
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
    }
}
