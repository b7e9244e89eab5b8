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

/// Quotes a text for a POSIX shell, so that a remedy can be pasted whatever it contains.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:,+=@%".contains(&b);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", printable(text).replace('\'', "'\\''")),
    }
}

/// Escapes a text so that it can't control the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => printed.extend(character.escape_default()),
            false => printed.push(character),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_can_be_pasted() {
        for (text, word) in [
            ("ibv_devinfo", "ibv_devinfo"),
            ("/opt/a-b/c.so.1", "/opt/a-b/c.so.1"),
            ("", "''"),
            ("my app", "'my app'"),
            ("x;rm -rf ~", "'x;rm -rf ~'"),
            ("it's", "'it'\\''s'"),
            ("a\x1b[2J", "'a\\u{1b}[2J'"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
