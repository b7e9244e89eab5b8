//! Why a description is refused.

use core::fmt;
use core::ops::Range;

/// An error in a description or a change, with the correct form.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkError {
    /// The line of the description, counted from 1. `None` if it is a single text.
    pub line: Option<usize>,
    /// The wrong value, and what would be right.
    pub what: String,
}

impl NetworkError {
    pub(super) fn new(what: impl fmt::Display) -> Self {
        Self {
            line: None,
            what: what.to_string(),
        }
    }

    /// The same error, about the part `span` of a description.
    pub(super) fn at(self, text: &str, span: &Range<usize>) -> Self {
        let before = text.as_bytes().iter().take(span.start);
        Self {
            line: Some(1 + before.filter(|byte| **byte == b'\n').count()),
            ..self
        }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl fmt::Debug for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NetworkError {}
