//! Errors of a run.

use crate::device_errors::device_errors;
use std::fmt;

/// Why a run failed, as a message for the user.
pub struct PingpongError {
    text: String,
    exit_code: u8,
}

impl PingpongError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exit_code: 1,
        }
    }

    /// An error in the arguments.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exit_code: 2,
        }
    }

    /// The process's exit code: 2 if the arguments were wrong, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for PingpongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PingpongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PingpongError {}

device_errors!(error: PingpongError => PingpongError::new(error.to_string()));
