//! The list of mutations.

use roce_source::{DataError, read_toml, toml_files};
use serde::Deserialize;
use std::path::Path;

/// A deliberate bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// Its ID.
    pub id: String,
    /// The mistake, in words.
    pub what: String,
    /// The file, relative to the project's folder.
    pub file: String,
    /// The text to replace, which occurs exactly once.
    pub old: String,
    /// The replacement.
    pub new: String,
    /// The tests that detect it, if they are not those of the file's crate: arguments of
    /// `cargo test`, and parts of the tests' names after `--`.
    pub tests: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutation: Vec<Mutation>,
}

/// All mutations of the list.
#[derive(Debug)]
pub struct List(pub Vec<Mutation>);

impl List {
    /// Reads all of `tools/mutations/list` below `root`.
    ///
    /// # Errors
    /// If a file can't be read, or does not contain mutations.
    pub fn load(root: &Path) -> Result<Self, DataError> {
        let mut all = Vec::new();
        for path in toml_files(&root.join("tools/mutations/list"))? {
            all.extend(read_toml::<File>(&path)?.mutation);
        }
        Ok(Self(all))
    }

    /// The problems of the list, one line each: text that does not occur exactly once, replacements
    /// that change nothing, and duplicate names.
    pub fn problems(&self, root: &Path) -> Vec<String> {
        let mut names = std::collections::BTreeSet::new();
        let mut problems = Vec::new();
        for mutation in &self.0 {
            let Mutation { id, file, .. } = mutation;
            if !names.insert(id) {
                problems.push(format!("{id}: there are two of this name"));
            }
            if mutation.old == mutation.new {
                problems.push(format!("{id}: changes nothing"));
            }
            match std::fs::read_to_string(root.join(file)) {
                Err(error) => problems.push(format!("{id}: {file}: {error}")),
                Ok(text) => match text.matches(&mutation.old).count() {
                    1 => {}
                    n => problems.push(format!(
                        "{id}: what it replaces is {n} times in {file}, and must be once: bring \
                         tools/mutations/list up to date"
                    )),
                },
            }
        }
        problems
    }
}
