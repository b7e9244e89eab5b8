//! The environment variables of this project.
//!
//! A program that has more rights than the user who started it (setuid, setgid, file capabilities)
//! must not take orders from that user's environment: variables name files to read and to write,
//! and choose what peers may do. The kernel tells such a program (`AT_SECURE`), and for it all
//! variables count as unset.

use std::ffi::OsString;

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
