//! One build with all mutations.

use crate::embed::{SWITCH, embed};
use crate::programs::{Program, Step, build, check, package};
use crate::{Copy, Edit, Outcome, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// Test programs that contain all mutations and activate the selected one.
#[derive(Debug)]
pub struct AllInOne {
    edits: Vec<Edit>,
    copy: Copy,
    /// The programs of each step that was built, by what it builds.
    programs: Mutex<BTreeMap<String, Vec<Program>>>,
    /// The mutations that do not compile.
    broken: BTreeSet<usize>,
    /// The mutations that can't be selected at run time.
    left_over: BTreeSet<usize>,
}

/// The most attempts to leave out mutations that do not compile. If the last one fails, something
/// else is wrong.
const ATTEMPTS: usize = 12;

impl AllInOne {
    /// Puts the mutations into a copy of the project at `root`, in a folder `name` below `target`.
    ///
    /// # Errors
    /// If the copy can't be made, or does not build even without the failing mutations.
    pub fn embed(root: &Path, target: &Path, name: &str, edits: Vec<Edit>) -> io::Result<Self> {
        let originals = originals(root, &edits)?;
        // If the files were restored first, each run would build everything again.
        let copy = Copy::make(root, target, name, &originals)?;
        let mut this = Self {
            edits,
            copy,
            programs: Mutex::default(),
            broken: BTreeSet::new(),
            left_over: BTreeSet::new(),
        };
        this.embed_all(&originals)?;
        Ok(this)
    }

    /// The programs of a step, which are built when they are first needed.
    fn programs(&self, step: &Step) -> io::Result<Vec<Program>> {
        let lock = self.programs.lock();
        let mut programs = lock.map_err(|_| io::Error::other("a build panicked"))?;
        if let Some(built) = programs.get(&step.build) {
            return Ok(built.clone());
        }
        let built = build(&self.copy, &step.build)?;
        let built = built.map_err(|failure| io::Error::other(failure.said))?;
        programs.insert(step.build.clone(), built.clone());
        Ok(built)
    }

    /// Writes the files with all mutations that compile.
    fn embed_all(&mut self, originals: &BTreeMap<String, String>) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            let mut lines = BTreeMap::new();
            for (file, original) in originals {
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

    /// Runs the tests with mutation `number`; `None` if it can't be selected at run time.
    ///
    /// # Errors
    /// If a program can't be built or run.
    pub fn run(&self, runner: &Runner, number: usize) -> io::Result<Option<Outcome>> {
        if self.left_over.contains(&number) {
            return Ok(None);
        }
        if self.broken.contains(&number) {
            return Ok(Some(Outcome::DoesNotBuild));
        }
        let edit = &self.edits[number - 1];
        let (near, wide) = (Step::near(edit), Step::wide(edit));
        let quick = |step: &Step| self.programs(step).map(|programs| step.quick(&programs));
        let slow = |step: &Step| self.programs(step).map(|programs| step.slow(&programs));
        let suites = (near.iter().map(quick))
            .chain(near.iter().map(slow))
            .chain(wide.iter().map(quick))
            .chain(wide.iter().map(slow));
        for suites in suites {
            match runner.run(&edit.file, number, &suites?)? {
                Outcome::Survived => {}
                outcome => return Ok(Some(outcome)),
            }
        }
        Ok(Some(Outcome::Survived))
    }
}

/// The unmodified files to change: those with mutations, and their crates' roots.
fn originals(root: &Path, edits: &[Edit]) -> io::Result<BTreeMap<String, String>> {
    let mut originals = BTreeMap::new();
    for edit in edits {
        for file in [edit.crate_root(), edit.file.clone()] {
            let text = std::fs::read_to_string(root.join(&file))?;
            originals.insert(file, text);
        }
    }
    Ok(originals)
}
