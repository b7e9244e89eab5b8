//! Results in a file, from which an interrupted run continues.

use crate::Outcome;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Results of earlier runs, and the file that gets those of this one. Without a file it is empty,
/// and keeps nothing.
///
/// Each line of the file has the outcome, the mutation's name, and the test that caught it, with
/// tabs between them.
#[derive(Debug, Default)]
pub struct Results {
    earlier: BTreeMap<String, Outcome>,
    file: Option<File>,
}

impl Results {
    /// Reads the results in the file at `path`, which is created if it is missing.
    ///
    /// # Errors
    /// If the file can't be read or written, or contains something else.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(path)?;
        let mut earlier = BTreeMap::new();
        for line in std::fs::read_to_string(path)?.lines() {
            let (name, outcome) = parse(line).ok_or_else(|| {
                let place = path.display();
                io::Error::other(format!(
                    "{place}: this is not the result of a mutation: {line}"
                ))
            })?;
            earlier.insert(name, outcome);
        }
        let file = Some(file);
        Ok(Self { earlier, file })
    }

    /// Takes the result of the mutation `name` in an earlier run.
    pub fn take(&mut self, name: &str) -> Option<Outcome> {
        self.earlier.remove(name)
    }

    /// Adds the result of the mutation `name` to the file.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn add(&self, name: &str, outcome: &Outcome) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else {
            return Ok(());
        };
        let by = match outcome {
            Outcome::Caught(by) => by,
            _ => "",
        };
        // One call, so that parallel jobs don't mix their lines.
        file.write_all(format!("{outcome}\t{name}\t{by}\n").as_bytes())
    }
}

/// The name and the outcome in a line of the file.
fn parse(line: &str) -> Option<(String, Outcome)> {
    let mut fields = line.split('\t');
    let (outcome, name, by) = (fields.next()?, fields.next()?, fields.next()?);
    let all = [
        Outcome::Caught(by.to_owned()),
        Outcome::Hung,
        Outcome::Survived,
        Outcome::DoesNotBuild,
    ];
    let outcome = all.into_iter().find(|of| of.to_string() == outcome)?;
    Some((name.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_that_were_added() {
        let all = [
            ("a", Outcome::Caught("tests::a".to_owned())),
            ("b.rs: replace < with <=", Outcome::Hung),
            ("c", Outcome::Survived),
            ("d", Outcome::DoesNotBuild),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        for (name, outcome) in &all {
            let results = Results::open(&path).expect("what was added is parsed");
            results.add(name, outcome).expect("it is written");
        }
        let mut results = Results::open(&path).expect("what was added is parsed");
        for (name, outcome) in all {
            assert_eq!(results.take(name), Some(outcome));
            assert_eq!(results.take(name), None);
        }
    }

    #[test]
    fn another_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        std::fs::write(&path, "caught a, by tests::a\n").expect("it is written");
        let error = Results::open(&path).expect_err("there are no tabs");
        assert!(error.to_string().contains("by tests::a"), "{error}");
    }
}
