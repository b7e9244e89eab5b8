//! Mutants that no test can catch, with the reasons.

use crate::Edit;
use roce_source::{DataError, read_toml};
use serde::Deserialize;
use std::path::Path;

/// Why a mutant survives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The name of the mutant: its file and its change.
    pub mutant: String,
    /// The line where it begins, trimmed: several mutants may have one name.
    pub line: String,
    /// Why no test can distinguish it from the original.
    pub why: String,
}

/// All explanations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    #[serde(default)]
    survivor: Vec<Explanation>,
}

impl Explained {
    /// Reads `tools/mutations/explained.toml` below `root`.
    ///
    /// # Errors
    /// If the file can't be read, or does not contain explanations.
    pub fn load(root: &Path) -> Result<Self, DataError> {
        read_toml(&root.join("tools/mutations/explained.toml"))
    }

    /// Why `edit` survives, if there is an explanation.
    pub fn why(&self, edit: &Edit) -> Option<&str> {
        let of = |e: &&Explanation| e.mutant == edit.name && e.line == edit.text;
        self.survivor.iter().find(of).map(|e| e.why.as_str())
    }

    /// Explanations of mutants that are not among `edits`.
    pub fn stale<'a>(&'a self, edits: &'a [Edit]) -> impl Iterator<Item = &'a Explanation> {
        let known = |e: &Explanation| {
            let mut edits = edits.iter();
            edits.any(|edit| edit.name == e.mutant && edit.text == e.line)
        };
        self.survivor.iter().filter(move |e| !known(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_of_one_change_in_one_line() {
        let explained: Explained = toml::from_str(
            "[[survivor]]\nmutant = 'a.rs: replace < with > in f'\nline = 'a < b'\nwhy = 'so'\n",
        )
        .expect("it is well-formed");
        let mut edit = Edit {
            name: "a.rs: replace < with > in f".to_owned(),
            file: "a.rs".to_owned(),
            line: 3,
            text: "a < b".to_owned(),
            at: 0..1,
            new: ">".to_owned(),
            tests: None,
        };
        assert_eq!(explained.why(&edit), Some("so"));
        assert_eq!(explained.stale(&[edit.clone()]).count(), 0);
        edit.text = "c < d".to_owned();
        assert_eq!(explained.why(&edit), None);
        assert_eq!(explained.stale(&[edit]).count(), 1);
    }
}
