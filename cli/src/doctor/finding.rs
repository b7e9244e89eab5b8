//! The results of checks.

use serde::Serialize;

/// The severity, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing is wrong.
    Ok,
    /// Something is slower than it could be, or fails unless the remedy is used.
    Warning,
    /// Something would fail.
    Failure,
}

impl Status {
    /// Its name in tables.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "FAILURE",
        }
    }
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check, in one or two words.
    pub check: String,
    /// Its severity.
    pub status: Status,
    /// The observation and its consequence.
    pub what: String,
    /// A shell command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn new(status: Status, check: &str, what: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            status,
            what: what.into(),
            remedy: None,
        }
    }

    /// Nothing is wrong.
    pub(super) fn ok(check: &str, what: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, what)
    }

    /// Something could be better.
    pub(super) fn warning(check: &str, what: impl Into<String>) -> Self {
        Self::new(Status::Warning, check, what)
    }

    /// Something would fail.
    pub(super) fn failure(check: &str, what: impl Into<String>) -> Self {
        Self::new(Status::Failure, check, what)
    }

    /// A failure for a program that is started directly; a warning if `roce run` fixes it.
    pub(super) fn unless_by_run(by_run: bool, check: &str, what: impl Into<String>) -> Self {
        let status = if by_run {
            Status::Warning
        } else {
            Status::Failure
        };
        Self::new(status, check, what)
    }

    /// Adds a command that fixes it.
    pub(super) fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy = Some(line.into());
        self
    }
}
