//! The list of mutations.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A deliberate bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// What it is called.
    pub id: String,
    /// The mistake, in words.
    pub what: String,
    /// The file, below the project's folder.
    pub file: String,
    /// What stands there, exactly once.
    pub old: String,
    /// What stands there instead.
    pub new: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutation: Vec<Mutation>,
}

/// All of them.
#[derive(Debug)]
pub struct List(pub Vec<Mutation>);

/// The list could not be used.
#[derive(Debug)]
pub struct ListError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for ListError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for ListError {}

impl List {
    /// Reads all of `mutations/list` below `root`.
    ///
    /// # Errors
    /// A file can't be read, or is not what it should be.
    pub fn load(root: &Path) -> Result<Self, ListError> {
        let folder = root.join("mutations/list");
        let failed = |path: &Path, what: &dyn std::fmt::Display| ListError {
            path: path.to_owned(),
            what: what.to_string(),
        };
        let entries = std::fs::read_dir(&folder).map_err(|e| failed(&folder, &e))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        paths.sort();
        let mut all = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
            let file: File = toml::from_str(&text).map_err(|e| failed(&path, &e))?;
            all.extend(file.mutation);
        }
        Ok(Self(all))
    }

    /// What is wrong with the list, each in one line: text that is not there, or more
    /// than once, replacements that change nothing, names that come twice.
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
                         mutations/list up to date"
                    )),
                },
            }
        }
        problems
    }
}
