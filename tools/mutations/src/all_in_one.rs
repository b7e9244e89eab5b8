//! One build with all mutations.

use crate::embed::{SWITCH, embed};
use crate::programs::{Program, Step, Suite, build, check, package};
use crate::{Copy, Edit, Outcome, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Test programs that contain all mutations and activate the selected one.
#[derive(Debug)]
pub struct AllInOne {
    edits: Vec<Edit>,
    copy: Copy,
    /// The programs of each step that was built, by what it builds.
    programs: BTreeMap<String, Vec<Program>>,
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
            programs: BTreeMap::new(),
            broken: BTreeSet::new(),
            left_over: BTreeSet::new(),
        };
        this.embed_all()?;
        let near = distinct(this.edits.iter().flat_map(Step::near));
        this.build_programs(&near)?;
        must_pass(runner, &this.quick(&near))?;
        Ok(this)
    }

    /// Builds the other programs for these mutations, for [`AllInOne::run_all_tests`].
    ///
    /// # Errors
    /// If they can't be built, or tests fail without a mutation.
    pub fn widen(&mut self, runner: &Runner, numbers: &[usize]) -> io::Result<()> {
        let edits = || numbers.iter().map(|number| &self.edits[number - 1]);
        let near = distinct(edits().flat_map(Step::near));
        let wide = distinct(edits().flat_map(Step::wide));
        self.build_programs(&wide)?;
        must_pass(runner, &self.other_suites(&near, &wide))
    }

    /// Builds what was not built before.
    fn build_programs(&mut self, steps: &[Step]) -> io::Result<()> {
        for Step { build: which, .. } in steps {
            if !self.programs.contains_key(which) {
                let built = build(&self.copy, which)?;
                let built = built.map_err(|failure| io::Error::other(failure.said))?;
                self.programs.insert(which.clone(), built);
            }
        }
        Ok(())
    }

    fn programs(&self, step: &Step) -> &[Program] {
        self.programs.get(&step.build).map_or(&[], Vec::as_slice)
    }

    fn quick(&self, steps: &[Step]) -> Vec<Suite> {
        let suites = steps.iter().map(|step| step.quick(self.programs(step)));
        suites.flatten().collect()
    }

    fn slow(&self, steps: &[Step]) -> Vec<Suite> {
        let suites = steps.iter().map(|step| step.slow(self.programs(step)));
        suites.flatten().collect()
    }

    /// All tests of these steps except the quick ones of the nearest.
    fn other_suites(&self, near: &[Step], wide: &[Step]) -> Vec<Suite> {
        [self.slow(near), self.quick(wide), self.slow(wide)].concat()
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
            let Err(failure) = check(&self.copy, &self.packages())? else {
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

    /// The packages with mutations, as arguments of cargo.
    fn packages(&self) -> String {
        let packages: BTreeSet<_> = self.edits.iter().map(|edit| package(&edit.file)).collect();
        let arguments: Vec<_> = packages.iter().map(|name| format!("-p {name}")).collect();
        arguments.join(" ")
    }

    /// The unmodified files to change: those with mutations, and their crates' roots.
    fn originals(&self) -> io::Result<BTreeMap<String, String>> {
        let mut originals = BTreeMap::new();
        for edit in &self.edits {
            for file in [edit.crate_root(), edit.file.clone()] {
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
        let quick = self.quick(&Step::near(edit));
        runner.run(&edit.file, number, &quick).map(Some)
    }

    /// Runs all other tests with mutation `number`, which survived the quick ones.
    ///
    /// # Errors
    /// If a program can't be run.
    pub fn run_all_tests(&self, runner: &Runner, number: usize) -> io::Result<Outcome> {
        let edit = &self.edits[number - 1];
        let others = self.other_suites(&Step::near(edit), &Step::wide(edit));
        runner.run(&edit.file, number, &others)
    }
}

/// Each of `steps` once, in the order of its first.
fn distinct(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let mut all = Vec::new();
    for step in steps {
        if !all.contains(&step) {
            all.push(step);
        }
    }
    all
}

/// Checks that tests pass without a mutation; otherwise failures would mean nothing.
fn must_pass(runner: &Runner, suites: &[Suite]) -> io::Result<()> {
    for suite in suites {
        match runner.run("", 0, std::slice::from_ref(suite))? {
            Outcome::Survived => {}
            outcome => {
                let program = suite.program.path.display();
                let error = format!("without any mutation, {program} fails: {outcome:?}");
                return Err(io::Error::other(error));
            }
        }
    }
    Ok(())
}
