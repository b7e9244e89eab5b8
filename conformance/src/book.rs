//! The rules, as the data files have them.

use roce_source::{DataError, read_toml, toml_files};
use serde::Deserialize;
use std::path::Path;

/// Everything that `rules/` holds.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order of their files' names.
    pub chapters: Vec<Chapter>,
    /// Where other implementations went wrong.
    pub traps: Vec<Trap>,
}

/// One file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chapter {
    /// Its heading.
    pub title: String,
    /// The rules, in the order of the file.
    #[serde(rename = "rule", default)]
    pub rules: Vec<Rule>,
}

/// One rule of the specification.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What citations call it.
    pub id: String,
    /// Where it comes from, like "IBTA 1.7, 9.7.5.1.4" or "A17.3.3".
    pub section: String,
    /// What it asks for, in our words.
    pub text: String,
    /// Whether the stack follows it.
    #[serde(default)]
    pub status: Status,
    /// Why not, if it does not.
    #[serde(default)]
    pub why: Option<String>,
}

/// A mistake that others made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trap {
    /// What citations call it.
    pub id: String,
    /// What goes wrong, and what is right, in our words.
    pub text: String,
    /// Whether the stack has come to where it could go wrong.
    #[serde(default)]
    pub status: Status,
    /// Why not, if it has not.
    #[serde(default)]
    pub why: Option<String>,
}

/// Whether a rule is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Status {
    /// Code and tests cite it.
    #[default]
    #[serde(rename = "implemented")]
    Implemented,
    /// It ought to be.
    #[serde(rename = "not yet")]
    NotYet,
    /// It is about something that a RoCEv2 NIC in software doesn't have or need.
    #[serde(rename = "does not apply")]
    DoesNotApply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrapFile {
    trap: Vec<Trap>,
}

impl Book {
    /// Reads all of `conformance/rules` below `root`.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold rules.
    pub fn load(root: &Path) -> Result<Self, DataError> {
        let mut book = Self::default();
        for path in toml_files(&root.join("conformance/rules"))? {
            if path.file_name().is_some_and(|name| name == "traps.toml") {
                book.traps = read_toml::<TrapFile>(&path)?.trap;
            } else {
                book.chapters.push(read_toml(&path)?);
            }
        }
        Ok(book)
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.chapters.iter().flat_map(|chapter| &chapter.rules)
    }
}
