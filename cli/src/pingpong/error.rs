//! Errors of a run.

use std::fmt;

/// Why a run failed, as a message for the user.
#[derive(Debug)]
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

impl std::error::Error for PingpongError {}

/// Makes `?` work on the errors of the verbs, whose text is complete.
macro_rules! from_errors {
    ($($error:ty),*) => {
        $(impl From<$error> for PingpongError {
            fn from(error: $error) -> Self {
                Self::new(error.to_string())
            }
        })*
    };
}

from_errors!(
    roce_verbs::device::OpenError,
    roce_verbs::qp::ConnectError,
    roce_verbs::qp::QpError,
    roce_verbs::memory::RegionError,
    roce_verbs::memory::BufferRange,
    roce_verbs::work::PostError,
    roce_verbs::completion::CqOverrun
);
