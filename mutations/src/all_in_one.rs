//! One build for all changes.

use crate::embed::{SWITCH, embed};
use crate::programs::{NEAR, Program, Suite, WIDE, build, check, first_near, quick, slow};
use crate::{Copy, Edit, Outcome, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Test programs that have all changes in them, and make the one that they are told.
#[derive(Debug)]
pub struct AllInOne {
    edits: Vec<Edit>,
    copy: Copy,
    /// For each of `NEAR`.
    near: Vec<Vec<Program>>,
    /// The programs of `WIDE`.
    wide: Vec<Program>,
    /// The changes that do not compile.
    broken: BTreeSet<usize>,
    /// The changes that can't be chosen when a program runs.
    left_over: BTreeSet<usize>,
}

/// After so many attempts to leave out what does not compile, something else is wrong.
const ATTEMPTS: usize = 12;

impl AllInOne {
    /// Builds the nearest programs in `copy`, which must be as the project is.
    ///
    /// # Errors
    /// The copy can't be changed, or doesn't build even without the changes that are
    /// to blame, or its quick tests fail with none chosen.
    pub fn build(copy: Copy, edits: Vec<Edit>, runner: &Runner) -> io::Result<Self> {
        let mut this = Self {
            edits,
            copy,
            near: Vec::new(),
            wide: Vec::new(),
            broken: BTreeSet::new(),
            left_over: BTreeSet::new(),
        };
        this.embed_all()?;
        for step in NEAR {
            this.near.push(this.programs(step)?);
        }
        must_pass(runner, &quick(&this.near.concat()))?;
        Ok(this)
    }

    /// Builds the other programs, for [`AllInOne::run_all_tests`].
    ///
    /// # Errors
    /// They can't be built, or some tests fail with no change chosen.
    pub fn widen(&mut self, runner: &Runner) -> io::Result<()> {
        self.wide = self.programs(WIDE)?;
        must_pass(runner, &self.other_suites(0))
    }

    fn programs(&self, which: &str) -> io::Result<Vec<Program>> {
        build(&self.copy, which)?.map_err(|failure| io::Error::other(failure.said))
    }

    /// All but the quick tests of the nearest programs.
    fn other_suites(&self, first: usize) -> Vec<Suite> {
        let near = self.near[first..].concat();
        [slow(&near), quick(&self.wide), slow(&self.wide)].concat()
    }

    /// Writes the files with all changes that compile.
    fn embed_all(&mut self) -> io::Result<()> {
        let originals = self.originals()?;
        for _ in 0..ATTEMPTS {
            let mut lines = BTreeMap::new();
            for (file, original) in &originals {
                let here = self.in_file(file);
                let embedded = embed(original, &here).map_err(io::Error::other)?;
                let mut source = embedded.source;
                if file.ends_with("/src/lib.rs") {
                    source.push_str(SWITCH);
                }
                self.copy.write(file, &source)?;
                lines.insert(file.as_str(), embedded.lines);
                self.left_over.extend(embedded.left_over);
            }
            let Err(failure) = check(&self.copy, "-p roce-wire -p roce-stack -p roce-cm")? else {
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
    fn originals(&self) -> io::Result<BTreeMap<String, String>> {
        let mut originals = BTreeMap::new();
        for edit in &self.edits {
            let (name, _) = edit.file.split_once('/').unwrap_or_default();
            for file in [format!("{name}/src/lib.rs"), edit.file.clone()] {
                let text = self.copy.read(&file)?;
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

    /// What the quick tests make of change `number`; `None` if it can't be chosen when
    /// a program runs.
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
        let edit = &self.edits[number - 1];
        let near = self.near[first_near(edit)..].concat();
        runner.run(&edit.file, number, &quick(&near)).map(Some)
    }

    /// What all other tests make of change `number`, which survived those.
    ///
    /// # Errors
    /// A program can't be run.
    pub fn run_all_tests(&self, runner: &Runner, number: usize) -> io::Result<Outcome> {
        let edit = &self.edits[number - 1];
        runner.run(&edit.file, number, &self.other_suites(first_near(edit)))
    }
}

/// Whether tests pass with no change chosen: failures would say nothing else.
fn must_pass(runner: &Runner, suites: &[Suite]) -> io::Result<()> {
    match runner.run("", 0, suites)? {
        Outcome::Survived => Ok(()),
        outcome => Err(io::Error::other(format!(
            "the tests fail without any mutation: {outcome:?}"
        ))),
    }
}
