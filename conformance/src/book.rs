//! The rules, as the data files have them.

use serde::Deserialize;
use std::path::{Path, PathBuf};

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

/// The data files could not be used.
#[derive(Debug)]
pub struct BookError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for BookError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for BookError {}

impl Book {
    /// Reads all of `conformance/rules` below `root`.
    ///
    /// # Errors
    /// A file can't be read, or is not what it should be.
    pub fn load(root: &Path) -> Result<Self, BookError> {
        let folder = root.join("conformance/rules");
        let failed = |path: &Path, what: &dyn std::fmt::Display| BookError {
            path: path.to_owned(),
            what: what.to_string(),
        };
        let entries = std::fs::read_dir(&folder).map_err(|e| failed(&folder, &e))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        paths.sort();
        let mut book = Self::default();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
            if path.file_name().is_some_and(|name| name == "traps.toml") {
                let file: TrapFile = toml::from_str(&text).map_err(|e| failed(&path, &e))?;
                book.traps = file.trap;
            } else {
                let chapter = toml::from_str(&text).map_err(|e| failed(&path, &e))?;
                book.chapters.push(chapter);
            }
        }
        Ok(book)
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.chapters.iter().flat_map(|chapter| &chapter.rules)
    }
}
