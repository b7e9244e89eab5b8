//! Why there is no cluster.

use super::report::ReportError;
use roce_fabric::FabricError;
use std::fmt;
use std::io;

/// Why `roce fabric` failed.
#[non_exhaustive]
pub enum FabricCommandError {
    /// Invalid arguments.
    Usage(String),
    /// The cluster can't be made.
    Fabric(FabricError),
    /// The report can't be written.
    Report(ReportError),
    /// The operating system refused something.
    System {
        /// The operation that failed.
        what: String,
        /// Its error.
        source: io::Error,
    },
}

impl FabricCommandError {
    /// The exit code if there is no cluster.
    const NOT_MADE: u8 = 125;

    /// The exit code that `roce` ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Fabric(_) | Self::Report(_) | Self::System { .. } => Self::NOT_MADE,
        }
    }
}

impl From<FabricError> for FabricCommandError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}

impl fmt::Display for FabricCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Fabric(error) => error.fmt(f),
            Self::Report(error) => error.fmt(f),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl fmt::Debug for FabricCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FabricCommandError {}
