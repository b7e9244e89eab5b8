//! One build for all changes.

use crate::embed::{SWITCH, embed};
use crate::programs::{Program, build, check, ladder, suites, whole_ladder};
use crate::{Copy, Edit, Outcome, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Test programs that have all changes in them, and make the one that they are told.
#[derive(Debug)]
pub struct AllInOne {
    edits: Vec<Edit>,
    /// For each step of the ladder.
    programs: Vec<Vec<Program>>,
    /// The changes that do not compile.
    broken: BTreeSet<usize>,
    /// The changes that can't be chosen when a program runs.
    left_over: BTreeSet<usize>,
}

/// After so many attempts to leave out what does not compile, something else is wrong.
const ATTEMPTS: usize = 12;

impl AllInOne {
    /// Builds the programs in `copy`, which must be as the project is.
    ///
    /// # Errors
    /// The copy can't be changed, or doesn't build even without the changes that are
    /// to blame, or its tests fail with none chosen.
    pub fn build(copy: &Copy, edits: Vec<Edit>, runner: &Runner) -> io::Result<Self> {
        let mut this = Self {
            edits,
            programs: Vec::new(),
            broken: BTreeSet::new(),
            left_over: BTreeSet::new(),
        };
        this.embed_all(copy)?;
        for step in whole_ladder() {
            let programs = build(copy, step)?.map_err(|failure| io::Error::other(failure.said))?;
            this.programs.push(programs);
        }
        let all: Vec<_> = this.programs.concat();
        match runner.run("", 0, &suites(&all))? {
            Outcome::Survived => Ok(this),
            outcome => Err(io::Error::other(format!(
                "the tests fail without any mutation: {outcome:?}"
            ))),
        }
    }

    /// Writes the files with all changes that compile.
    fn embed_all(&mut self, copy: &Copy) -> io::Result<()> {
        let originals = self.originals(copy)?;
        for _ in 0..ATTEMPTS {
            let mut lines = BTreeMap::new();
            for (file, original) in &originals {
                let here = self.in_file(file);
                let embedded = embed(original, &here).map_err(io::Error::other)?;
                let mut source = embedded.source;
                if file.ends_with("/src/lib.rs") {
                    source.push_str(SWITCH);
                }
                copy.write(file, &source)?;
                lines.insert(file.as_str(), embedded.lines);
                self.left_over.extend(embedded.left_over);
            }
            let Err(failure) = check(copy, "-p roce-wire -p roce-stack")? else {
                return Ok(());
            };
            let blamed = failure.places.iter().filter_map(|(file, line)| {
                let arms = lines.get(file.as_str())?;
                Some(arms.iter().find(|(lines, _)| lines.contains(line))?.1)
            });
            let before = self.broken.len();
            self.broken.extend(blamed);
            if self.broken.len() == before {
                return Err(io::Error::other(failure.said));
            }
        }
        Err(io::Error::other(
            "there is no end of changes that don't compile",
        ))
    }

    /// The files to change, as they are: those with changes, and the roots of their
    /// crates.
    fn originals(&self, copy: &Copy) -> io::Result<BTreeMap<String, String>> {
        let mut originals = BTreeMap::new();
        for edit in &self.edits {
            let (name, _) = edit.file.split_once('/').unwrap_or_default();
            for file in [format!("{name}/src/lib.rs"), edit.file.clone()] {
                let text = copy.read(&file)?;
                originals.insert(file, text);
            }
        }
        Ok(originals)
    }

    /// The changes to embed in `file`, with their numbers.
    fn in_file(&self, file: &str) -> Vec<(usize, Edit)> {
        let numbered = self.edits.iter().cloned().enumerate();
        let numbered = numbered.map(|(index, edit)| (index + 1, edit));
        let here = numbered.filter(|(number, edit)| {
            edit.file == file && !self.broken.contains(number) && !self.left_over.contains(number)
        });
        here.collect()
    }

    /// The numbers of all changes, from 1, and what they are.
    pub fn edits(&self) -> impl Iterator<Item = (usize, &Edit)> {
        (1..).zip(&self.edits)
    }

    /// What the tests make of change `number`; `None` if it can't be chosen when a
    /// program runs.
    ///
    /// # Errors
    /// A program can't be run.
    pub fn run(&self, runner: &Runner, number: usize) -> io::Result<Option<Outcome>> {
        if self.left_over.contains(&number) {
            return Ok(None);
        }
        if self.broken.contains(&number) {
            return Ok(Some(Outcome::DoesNotBuild));
        }
        let Some(edit) = self.edits.get(number - 1) else {
            return Ok(None);
        };
        let first = whole_ladder().len() - ladder(edit).len();
        for programs in &self.programs[first..] {
            match runner.run(&edit.file, number, &suites(programs))? {
                Outcome::Survived => {}
                outcome => return Ok(Some(outcome)),
            }
        }
        Ok(Some(Outcome::Survived))
    }
}
