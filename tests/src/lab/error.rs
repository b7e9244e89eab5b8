//! What went wrong in a lab, for a human to read.

use std::fmt;
use std::io;
use std::path::Path;

/// Why something in the lab failed.
#[derive(Clone, Debug)]
pub struct LabError {
    what: String,
    poor_machine: bool,
}

impl LabError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            poor_machine: false,
        }
    }

    /// The machine lacks something that the lab needs.
    pub(crate) fn poor_machine(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            poor_machine: true,
        }
    }

    pub(crate) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {verb} {}: {error}", path.display()))
    }

    /// Puts what was being done before what went wrong.
    pub(crate) fn context(self, doing: impl fmt::Display) -> Self {
        Self {
            what: format!("{doing}: {}", self.what),
            ..self
        }
    }

    /// Whether the lab cannot run here at all (no root, no QEMU, no kernel to be
    /// had), as opposed to having failed.
    pub fn is_poor_machine(&self) -> bool {
        self.poor_machine
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for LabError {}
