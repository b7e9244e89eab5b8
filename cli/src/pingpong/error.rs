//! What can go wrong in a run.

use std::fmt;

/// Why a run failed, in words for the user.
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

    /// The arguments cannot be right.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            exit_code: 2,
        }
    }

    /// What the process should end with: 2 if the arguments were wrong, otherwise 1.
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

/// `?` on the errors of the verbs, which say what is wrong by themselves.
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
