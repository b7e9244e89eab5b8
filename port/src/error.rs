//! The failures of a port.

use std::fmt;

/// A failure of the port itself, for instance because its interface was removed. If one packet
/// can't be sent (no route, no neighbour, no buffer), the port counts a drop and returns no error.
pub struct PortError {
    /// The operation that failed and its object, in words.
    pub what: String,
    /// The operating system's error.
    pub source: std::io::Error,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl fmt::Debug for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
