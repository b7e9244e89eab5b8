//! Errors of a lab.

use std::fmt;
use std::io;
use std::path::Path;

/// Why something in the lab failed.
#[derive(Clone, Debug)]
pub struct LabError {
    what: String,
    kind: Kind,
}

/// The kind of failure, which determines how callers handle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Failed,
    PoorMachine,
    NotBooted,
}

impl LabError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: Kind::Failed,
        }
    }

    /// The machine lacks something that the lab needs.
    pub(crate) fn poor_machine(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: Kind::PoorMachine,
        }
    }

    pub(crate) fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot {verb} {}: {error}", path.display()))
    }

    /// Prefixes the error with the step that failed.
    pub(crate) fn context(self, doing: impl fmt::Display) -> Self {
        Self {
            what: format!("{doing}: {}", self.what),
            ..self
        }
    }

    /// Marks an error that happened while the guest booted: the guest died, or did not come up in
    /// time.
    pub(crate) fn while_booting(self) -> Self {
        Self {
            kind: Kind::NotBooted,
            ..self
        }
    }

    /// Whether the guest has not come up.
    pub(crate) fn is_not_booted(&self) -> bool {
        self.kind == Kind::NotBooted
    }

    /// Whether this machine cannot run the lab at all (no root, no QEMU, no kernel available).
    /// Otherwise the lab has failed.
    pub fn is_poor_machine(&self) -> bool {
        self.kind == Kind::PoorMachine
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for LabError {}
