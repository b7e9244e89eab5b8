//! What can go wrong when somebody listens.

use crate::error::ConnectError;
use roce_cm::CmError;
use std::{fmt, io};

/// Why nobody listens.
#[derive(Debug)]
pub enum ListenError {
    /// The address can't be used.
    Address(ConnectError),
    /// The agent refused.
    Agent(CmError),
    /// The system does not steer requests to this process.
    Steering(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Agent(error) => error.fmt(f),
            Self::Steering(error) => write!(f, "steering requests to this process: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl From<ConnectError> for ListenError {
    fn from(error: ConnectError) -> Self {
        Self::Address(error)
    }
}

impl From<CmError> for ListenError {
    fn from(error: CmError) -> Self {
        Self::Agent(error)
    }
}
