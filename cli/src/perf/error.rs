//! Errors of a measurement.

use super::op::Op;
use std::fmt;
use std::io;

/// Why a measurement ended early.
#[non_exhaustive]
pub enum PerfError {
    /// Invalid arguments.
    Usage(String),
    /// The peer could not be reached, or stopped answering.
    Peer(String),
    /// The local device could not be set up.
    Device(String),
    /// Standard output could not be written. The error names it.
    Print(io::Error),
    /// Bytes arrived that differ from those sent.
    Mismatch {
        /// The operation.
        op: Op,
        /// The message size.
        size: usize,
        /// The position, and the bytes found.
        what: String,
    },
}

impl fmt::Display for PerfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Peer(message) | Self::Device(message) => {
                f.write_str(message)
            }
            Self::Print(error) => error.fmt(f),
            Self::Mismatch { op, size, what } => {
                write!(
                    f,
                    "{} of {size} bytes delivered wrong data: {what}",
                    op.label()
                )
            }
        }
    }
}

impl fmt::Debug for PerfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PerfError {}

impl PerfError {
    /// The command's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            _ => 1,
        }
    }
}

/// Makes `?` work on the errors of `roce_verbs`, whose text is complete.
macro_rules! from_device_errors {
    ($($error:ty),+) => {$(
        impl From<$error> for PerfError {
            fn from(error: $error) -> Self {
                Self::Device(error.to_string())
            }
        }
    )+};
}

from_device_errors!(
    roce_verbs::device::OpenError,
    roce_verbs::qp::ConnectError,
    roce_verbs::qp::QpError,
    roce_verbs::memory::RegionError,
    roce_verbs::memory::BufferRangeError,
    roce_verbs::work::PostError,
    roce_verbs::completion::CqOverrun
);
