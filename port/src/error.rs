//! The failures of a port.

use std::fmt;

/// A failure of the port itself, for instance because its interface has gone. A problem of one
/// packet (no route, no neighbour, no buffer) is a counted drop, not a failure.
#[derive(Debug)]
pub struct PortError {
    /// The operation that failed and what it was applied to, in words.
    pub what: String,
    /// The operating system's error.
    pub source: std::io::Error,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
