//! The rules in the data files.

use roce_source::{DataError, read_toml, toml_files};
use serde::Deserialize;
use std::path::Path;

/// The contents of `rules/`.
#[derive(Debug, Default)]
pub struct Book {
    /// Ordered by file name.
    pub chapters: Vec<Chapter>,
    /// Mistakes of other implementations.
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
    /// The ID for citations.
    pub id: String,
    /// The section of the specification, such as "IBTA 1.7, 9.7.5.1.4" or "A17.3.3".
    pub section: String,
    /// The requirement, in our words.
    pub text: String,
    /// Whether the stack follows it.
    #[serde(default)]
    pub status: Status,
    /// The reason, if it does not.
    #[serde(default)]
    pub why: Option<String>,
}

/// A mistake of other implementations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trap {
    /// The ID for citations.
    pub id: String,
    /// What goes wrong and what is right, in our words.
    pub text: String,
    /// Whether the stack has the feature that could go wrong.
    #[serde(default)]
    pub status: Status,
    /// The reason, if it does not.
    #[serde(default)]
    pub why: Option<String>,
}

/// Whether a rule is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Status {
    /// It is followed: code and tests cite it.
    #[default]
    #[serde(rename = "implemented")]
    Implemented,
    /// It is not followed yet.
    #[serde(rename = "not yet")]
    NotYet,
    /// It covers a feature that a software RoCEv2 NIC does not have or need.
    #[serde(rename = "does not apply")]
    DoesNotApply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrapFile {
    trap: Vec<Trap>,
}

impl Book {
    /// Reads all of `tools/conformance/rules` below `root`.
    ///
    /// # Errors
    /// If a file can't be read, or does not contain rules.
    pub fn load(root: &Path) -> Result<Self, DataError> {
        let mut book = Self::default();
        for path in toml_files(&root.join("tools/conformance/rules"))? {
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
