//! Why a port fails.

use std::fmt;

/// A port's own failure, for instance that its interface has gone. What one packet
/// suffers (no route, no neighbour, no buffer) is a counted drop, not a failure.
#[derive(Debug)]
pub struct PortError {
    /// What the port was doing and with what, in words.
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
