//! A change of one file, from the list or from cargo-mutants.

use crate::Mutation;
use serde::Deserialize;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// A change of the sources: a position and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Its name: the file and the change without a line number, so that the name stays the same
    /// while the rest of the file changes.
    pub name: String,
    /// The file, relative to the project's folder.
    pub file: String,
    /// The line where it begins, from 1.
    pub line: usize,
    /// That line, trimmed.
    pub text: String,
    /// The bytes of the file that it replaces.
    pub at: Range<usize>,
    /// The replacement.
    pub new: String,
    /// The tests that detect it, as in [`Mutation::tests`].
    pub tests: Option<String>,
}

impl Edit {
    fn new(name: String, file: String, source: &str, at: Range<usize>, new: String) -> Self {
        let before = source.get(..at.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let text = source.lines().nth(line - 1).unwrap_or_default().trim();
        Self {
            name,
            line,
            text: text.to_owned(),
            file,
            at,
            new,
            tests: None,
        }
    }

    /// The root file of the library that the file belongs to, relative to the project's folder.
    pub fn crate_root(&self) -> String {
        let (folder, _) = self.file.split_once("/src/").unwrap_or((&self.file, ""));
        format!("{folder}/src/lib.rs")
    }

    /// The edit of a `mutation` in the list.
    ///
    /// # Errors
    /// If the file can't be read, or does not contain the text to replace.
    pub fn of(mutation: &Mutation, root: &Path) -> io::Result<Self> {
        let source = std::fs::read_to_string(root.join(&mutation.file))?;
        let start = source.find(&mutation.old).ok_or_else(|| {
            io::Error::other(format!(
                "{}: the file does not contain the text to replace",
                mutation.id
            ))
        })?;
        let at = start..start + mutation.old.len();
        let (name, file) = (mutation.id.clone(), mutation.file.clone());
        Ok(Self {
            tests: mutation.tests.clone(),
            ..Self::new(name, file, &source, at, mutation.new.clone())
        })
    }

    /// `source` with the change made.
    pub fn apply(&self, source: &str) -> String {
        let mut text = source.to_owned();
        text.replace_range(self.at.clone(), &self.new);
        text
    }

    /// The mutants that cargo-mutants finds in the files of `root` that match `globs`.
    ///
    /// # Errors
    /// If cargo-mutants is not installed, or its output can't be parsed.
    pub fn by_cargo_mutants(root: &Path, globs: &[&str]) -> io::Result<Vec<Self>> {
        let mut command = Command::new("cargo");
        command
            .current_dir(root)
            .args(["mutants", "--list", "--json", "--workspace"]);
        for glob in globs {
            command.args(["--file", glob]);
        }
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "`cargo mutants` failed (`cargo install cargo-mutants` installs it): {said}"
            )));
        }
        let read = |file: &str| std::fs::read_to_string(root.join(file));
        listed(&output.stdout, read)
    }
}

/// Parses a list in the format of cargo-mutants; `read` returns the files that it names.
fn listed(json: &[u8], read: impl Fn(&str) -> io::Result<String>) -> io::Result<Vec<Edit>> {
    let all: Vec<Listed> = serde_json::from_slice(json)?;
    let mut edits = Vec::with_capacity(all.len());
    for mutant in all {
        let source = read(&mutant.file)?;
        let Listed { name, file, .. } = mutant;
        let span = mutant.span;
        let at = span.start.byte(&source)..span.end.byte(&source);
        // "FILE:LINE:COLUMN: change".
        let change = name.splitn(4, ':').nth(3).unwrap_or(&name).trim();
        let name = format!("{file}: {change}");
        edits.push(Edit::new(name, file, &source, at, mutant.replacement));
    }
    Ok(edits)
}

/// A mutant, as cargo-mutants prints it.
#[derive(Deserialize)]
struct Listed {
    name: String,
    file: String,
    span: Span,
    replacement: String,
}

#[derive(Clone, Copy, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    /// The corresponding byte offset in `source`.
    fn byte(self, source: &str) -> usize {
        let lines = source.split_inclusive('\n');
        let before: usize = lines.take(self.line.saturating_sub(1)).map(str::len).sum();
        let rest = source.get(before..).unwrap_or_default();
        let characters = rest.char_indices();
        let mut columns = characters.skip(self.column.saturating_sub(1));
        columns
            .next()
            .map_or(source.len(), |(offset, _)| before + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_mutants_output_becomes_positions_in_the_file() {
        let source = "// ü\nfn f(a: u8) -> bool {\n    'ü' == 'x' && a > 3\n}\n";
        let json = br#"[{"name": "a.rs:3:21: replace > with == in f", "package": "p",
            "file": "a.rs", "function": null, "genre": "BinaryOperator", "replacement": "==",
            "span": {"start": {"line": 3, "column": 21}, "end": {"line": 3, "column": 22}}}]"#;
        let edits = listed(json, |_| Ok(source.to_owned())).expect("it is well-formed");
        let edit = &edits[0];
        assert_eq!(edit.name, "a.rs: replace > with == in f");
        assert_eq!(edit.text, "'ü' == 'x' && a > 3");
        assert_eq!(
            edit.apply(source),
            source.replace("a > 3", "a == 3"),
            "{edit:?}"
        );
    }
}
