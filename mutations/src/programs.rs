//! The test programs: how they are built, and in which order they run.

use crate::{Copy, Edit};
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The tests that detect most mutations.
pub(crate) const NEAR: &[&str] = &[
    "-p roce-wire --lib",
    "-p roce-stack --tests",
    "-p roce-cm --tests",
];

/// The tests for the rest. All are deterministic: tests over real sockets can fail for reasons
/// other than a bug.
pub(crate) const WIDE: &str = "-p roce-sim --tests";

/// The index of the first of `NEAR` that can detect `edit`: the codec does not depend on the stack,
/// nor the stack on communication management.
pub(crate) fn first_near(edit: &Edit) -> usize {
    match edit.file.split('/').next() {
        Some("wire") => 0,
        Some("cm") => 2,
        _ => 1,
    }
}

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The working directory in which cargo would run it.
    pub(crate) folder: PathBuf,
}

/// Why a program was not built.
#[derive(Debug)]
pub(crate) struct BuildFailure {
    /// The positions of the errors: the file, and the line counted from 1.
    pub(crate) places: Vec<(String, usize)>,
    /// The compiler's output.
    pub(crate) said: String,
}

/// Builds the test programs that the arguments `which` select.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn build(copy: &Copy, which: &str) -> io::Result<Result<Vec<Program>, BuildFailure>> {
    cargo(copy, &["test", "--no-run"], which)
}

/// Checks whether the libraries compile.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn check(copy: &Copy, which: &str) -> io::Result<Result<(), BuildFailure>> {
    Ok(cargo(copy, &["check"], which)?.map(drop))
}

fn cargo(
    copy: &Copy,
    command: &[&str],
    which: &str,
) -> io::Result<Result<Vec<Program>, BuildFailure>> {
    let output = Command::new("cargo")
        .current_dir(&copy.checkout)
        .env("CARGO_TARGET_DIR", &copy.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1")
        // A mutation may leave something unused, or make an expression overflow.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .args(command)
        .args(["--message-format=json", "--quiet"])
        .args(which.split_whitespace())
        .stdin(Stdio::null())
        .output()?;
    let (mut programs, mut places, mut said) = (Vec::new(), Vec::new(), String::new());
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            continue;
        };
        if let (Some(path), Some(manifest)) = (line.executable, line.manifest_path) {
            let folder = manifest.parent().map_or(PathBuf::new(), PathBuf::from);
            programs.push(Program { path, folder });
        }
        let Some(message) = line.message.filter(|message| message.level == "error") else {
            continue;
        };
        said.push_str(&message.rendered.unwrap_or_default());
        let primary = message.spans.into_iter().filter(|span| span.is_primary);
        places.extend(primary.map(|span| (span.file_name, span.line_start)));
    }
    if output.status.success() {
        return Ok(Ok(programs));
    }
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Ok(Err(BuildFailure { places, said }))
}

/// The relevant parts of cargo's output.
#[derive(Deserialize)]
struct Line {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

/// A subset of a program's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) program: Program,
    pub(crate) arguments: Vec<String>,
    /// The limit of their processor time in seconds. A program that exceeds it hangs.
    pub(crate) seconds: u32,
}

impl Suite {
    /// Whether its tests are quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.seconds <= QUICK_SECONDS
    }

    /// A suite of the tests with these names.
    pub(crate) fn named(program: &Program, names: impl Iterator<Item = String>) -> Self {
        Self {
            program: program.clone(),
            arguments: std::iter::once("--exact".to_owned()).chain(names).collect(),
            seconds: 5,
        }
    }
}

/// The time limit of all quick tests together, in seconds.
const QUICK_SECONDS: u32 = 25;

/// The slowest tests, by parts of their names.
const SLOW: &[&str] = &["soak", "hostile", "bad_wire", "faulty_wire"];

/// The quick tests of `programs`, which detect most mutations.
pub(crate) fn quick(programs: &[Program]) -> Vec<Suite> {
    let skipping = SLOW.iter().flat_map(|name| ["--skip", name]);
    let arguments: Vec<_> = skipping.map(str::to_owned).collect();
    suites(programs, &arguments, QUICK_SECONDS)
}

/// The other tests.
pub(crate) fn slow(programs: &[Program]) -> Vec<Suite> {
    let arguments: Vec<_> = SLOW.iter().map(|name| (*name).to_owned()).collect();
    suites(programs, &arguments, 200)
}

fn suites(programs: &[Program], arguments: &[String], seconds: u32) -> Vec<Suite> {
    let suite = |program: &Program| Suite {
        program: program.clone(),
        arguments: arguments.to_vec(),
        seconds,
    };
    programs.iter().map(suite).collect()
}
