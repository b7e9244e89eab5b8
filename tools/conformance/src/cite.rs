//! The citations in comments of the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The kind of a citation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The code that follows implements the rule.
    Rule,
    /// The test that follows fails if the rule is violated.
    Shows,
    /// The test that follows fails if the implementation makes the mistake.
    Trap,
}

/// A citation of a rule or trap at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Its kind.
    pub kind: Kind,
    /// The cited ID.
    pub id: String,
    /// The file, relative to the project's folder, with slashes.
    pub file: String,
    /// The line of the comment, for messages only.
    pub line: usize,
    /// The test that follows; `None` in code, or if no test follows.
    pub test: Option<String>,
}

/// All citations of a project.
#[derive(Debug, Default)]
pub struct Citations(pub Vec<Citation>);

/// Folders without sources of this project, and those of the crates that contain examples of citations.
const SKIPPED: [&str; 6] = [
    "target",
    ".git",
    "corpus",
    "artifacts",
    "tools/conformance",
    "tools/mutations",
];

/// The most lines between a citation and the name of its test.
const REACH: usize = 12;

impl Citations {
    /// Reads every Rust file below `root`, except those of this crate and of the mutations, which
    /// contain examples of citations.
    ///
    /// # Errors
    /// A file or folder can't be read.
    pub fn scan(root: &Path) -> std::io::Result<Self> {
        let mut files = BTreeSet::new();
        collect(root, &mut files)?;
        let mut all = Self::default();
        for path in files {
            let text = std::fs::read_to_string(&path)?;
            let file = path.strip_prefix(root).unwrap_or(&path);
            all.read(&file.to_string_lossy().replace('\\', "/"), &text);
        }
        Ok(all)
    }

    /// Adds the citations of one file.
    pub fn read(&mut self, file: &str, text: &str) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((kind, ids)) = citation(line) else {
                continue;
            };
            let test = match kind {
                Kind::Rule => None,
                Kind::Shows | Kind::Trap => test_below(&lines[at + 1..]),
            };
            for id in ids.split(',').map(str::trim).filter(|id| !id.is_empty()) {
                self.0.push(Citation {
                    kind,
                    id: id.to_owned(),
                    file: file.to_owned(),
                    line: at + 1,
                    test: test.clone(),
                });
            }
        }
    }

    /// The citations of `id` with this kind.
    pub fn of<'a>(&'a self, kind: Kind, id: &'a str) -> impl Iterator<Item = &'a Citation> {
        self.0.iter().filter(move |c| c.kind == kind && c.id == id)
    }
}

fn citation(line: &str) -> Option<(Kind, &str)> {
    let comment = line.strip_prefix("// ")?;
    let kinds = [
        ("rule: ", Kind::Rule),
        ("shows: ", Kind::Shows),
        ("trap: ", Kind::Trap),
    ];
    kinds
        .into_iter()
        .find_map(|(prefix, kind)| Some((kind, comment.strip_prefix(prefix)?)))
}

/// The name of the test that begins in these lines.
fn test_below(lines: &[&str]) -> Option<String> {
    let near = &lines[..lines.len().min(REACH)];
    let name_at = near.iter().position(|line| {
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        line.starts_with("fn ") || line.starts_with("const fn ")
    })?;
    near[..name_at]
        .iter()
        .any(|line| line.starts_with("#[test]"))
        .then_some(())?;
    let (_, rest) = near[name_at].split_once("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(rest[..end].to_owned())
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    if SKIPPED.iter().any(|name| folder.ends_with(name)) {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_found_with_the_test_that_follows() {
        let text = "\
/// Why.
// shows: a-1, b-2
// trap: t
#[test]
fn it_works() {
    // rule: c-3
    let x = 1;
}
// shows: lost
fn no_test() {}
";
        let mut found = Citations::default();
        found.read("x/tests.rs", text);
        let seen: Vec<_> = found
            .0
            .iter()
            .map(|c| (c.kind, c.id.as_str(), c.line, c.test.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                (Kind::Shows, "a-1", 2, Some("it_works")),
                (Kind::Shows, "b-2", 2, Some("it_works")),
                (Kind::Trap, "t", 3, Some("it_works")),
                (Kind::Rule, "c-3", 6, None),
                (Kind::Shows, "lost", 9, None),
            ]
        );
    }
}
