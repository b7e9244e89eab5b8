//! One build with all mutations.

use crate::embed::{SWITCH, embed};
use crate::programs::{NEAR, Program, Suite, WIDE, build, check, first_near, quick, slow};
use crate::{Copy, Edit, Outcome, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Test programs that contain all mutations and activate the selected one.
#[derive(Debug)]
pub struct AllInOne {
    edits: Vec<Edit>,
    copy: Copy,
    /// The programs of each entry of `NEAR`.
    near: Vec<Vec<Program>>,
    /// The programs of `WIDE`.
    wide: Vec<Program>,
    /// The mutations that do not compile.
    broken: BTreeSet<usize>,
    /// The mutations that can't be selected at run time.
    left_over: BTreeSet<usize>,
}

/// The most attempts to leave out mutations that do not compile. If the last one fails, something
/// else is wrong.
const ATTEMPTS: usize = 12;

impl AllInOne {
    /// Builds the nearest programs in `copy`, which must equal the project.
    ///
    /// # Errors
    /// If the copy can't be changed, does not build even without the failing mutations, or its
    /// quick tests fail without a mutation.
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
    /// If they can't be built, or tests fail without a mutation.
    pub fn widen(&mut self, runner: &Runner) -> io::Result<()> {
        self.wide = self.programs(WIDE)?;
        must_pass(runner, &self.other_suites(0))
    }

    fn programs(&self, which: &str) -> io::Result<Vec<Program>> {
        build(&self.copy, which)?.map_err(|failure| io::Error::other(failure.said))
    }

    /// All tests except the quick ones of the nearest programs.
    fn other_suites(&self, first: usize) -> Vec<Suite> {
        let near = self.near[first..].concat();
        [slow(&near), quick(&self.wide), slow(&self.wide)].concat()
    }

    /// Writes the files with all mutations that compile.
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
            "some mutations still do not compile after the last attempt",
        ))
    }

    /// The unmodified files to change: those with mutations, and their crates' roots.
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

    /// The mutations in `file`, with their numbers.
    fn in_file(&self, file: &str) -> Vec<(usize, Edit)> {
        let numbered = self.edits.iter().cloned().enumerate();
        let numbered = numbered.map(|(index, edit)| (index + 1, edit));
        let here = numbered.filter(|(number, edit)| {
            edit.file == file && !self.broken.contains(number) && !self.left_over.contains(number)
        });
        here.collect()
    }

    /// All mutations, numbered from 1.
    pub fn edits(&self) -> impl Iterator<Item = (usize, &Edit)> {
        (1..).zip(&self.edits)
    }

    /// Runs the quick tests with mutation `number`; `None` if it can't be selected at run time.
    ///
    /// # Errors
    /// If a program can't be run.
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

    /// Runs all other tests with mutation `number`, which survived the quick ones.
    ///
    /// # Errors
    /// If a program can't be run.
    pub fn run_all_tests(&self, runner: &Runner, number: usize) -> io::Result<Outcome> {
        let edit = &self.edits[number - 1];
        runner.run(&edit.file, number, &self.other_suites(first_near(edit)))
    }
}

/// Checks that tests pass without a mutation; otherwise failures would mean nothing.
fn must_pass(runner: &Runner, suites: &[Suite]) -> io::Result<()> {
    match runner.run("", 0, suites)? {
        Outcome::Survived => Ok(()),
        outcome => Err(io::Error::other(format!(
            "the tests fail without any mutation: {outcome:?}"
        ))),
    }
}
