//! Running the tests against a mutation.

use crate::{Copy, Mutation};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the tests made of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A test failed: as it should be.
    Caught,
    /// The tests did not end: they would have been noticed, too.
    Hung,
    /// All tests passed.
    Survived,
    /// The mutation does not build, so it says nothing.
    DoesNotBuild,
}

impl Outcome {
    /// Whether somebody should do something.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Survived | Self::DoesNotBuild)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::Hung => "hung",
            Self::Survived => "SURVIVED",
            Self::DoesNotBuild => "DOES NOT BUILD",
        })
    }
}

/// Tests that take longer than this hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the tests of `mutation` against it; with `None`, the given tests against the
/// copy as it is.
///
/// # Errors
/// cargo can't be started, or the copy can't be changed.
pub fn run(copy: &Copy, mutation: Option<&Mutation>, test: &str) -> io::Result<Outcome> {
    let _applied = mutation.map(|mutation| copy.apply(mutation)).transpose()?;
    if !cargo(copy, test, Step::Build)?.is_some_and(|success| success) {
        return Ok(Outcome::DoesNotBuild);
    }
    // Most are caught by tests that take no time: the slow ones are for the others.
    for skipped in [SLOW, &[]] {
        match cargo(copy, test, Step::Run { skipped })? {
            None => return Ok(Outcome::Hung),
            Some(false) => return Ok(Outcome::Caught),
            Some(true) => {}
        }
    }
    Ok(Outcome::Survived)
}

/// Tests that take most of the time, by parts of their names.
const SLOW: &[&str] = &["soak", "hostile", "bad_wire", "faulty_wire"];

/// What cargo is to do.
enum Step {
    Build,
    Run { skipped: &'static [&'static str] },
}

/// Whether the tests, or only their build, succeeded; `None` if they did not end.
fn cargo(copy: &Copy, test: &str, step: Step) -> io::Result<Option<bool>> {
    let mut command = Command::new("cargo");
    command
        .current_dir(&copy.checkout)
        .env("CARGO_TARGET_DIR", &copy.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1")
        .args(["test", "--quiet"]);
    command.args(test.split_whitespace());
    match step {
        Step::Build => {
            command.arg("--no-run");
        }
        Step::Run { skipped } => {
            command.arg("--");
            for name in skipped {
                command.args(["--skip", name]);
            }
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if started.elapsed() > PATIENCE {
            // cargo and the tests that it started.
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-9", "--", &group]).status()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
