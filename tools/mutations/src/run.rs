//! Runs tests against a mutation, most promising tests first.

use crate::programs::{Program, Suite};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// The result of the tests for a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This test failed, as it should.
    Caught(String),
    /// The tests did not end, which would be noticed, too.
    Hung,
    /// All tests passed.
    Survived,
    /// The mutation does not build, so there is no result.
    DoesNotBuild,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Caught(_) => "caught",
            Self::Hung => "hung",
            Self::Survived => "SURVIVED",
            Self::DoesNotBuild => "DOES NOT BUILD",
        })
    }
}

/// Runs suites, and remembers which tests have caught mutations in which file.
#[derive(Debug, Default)]
pub struct Runner {
    killers: Mutex<BTreeMap<String, Vec<(String, Program)>>>,
    /// The tests that were run without a mutation, and passed.
    sound: Mutex<Vec<Suite>>,
}

/// The number of tests to remember for a file.
const KILLERS: usize = 12;

/// The memory limit of a program, in bytes: a program that exceeds it has a bug.
const MOST_BYTES: u64 = 8 << 30;

impl Runner {
    /// Runs `suites` with mutation `number`, which is in `file`, until a test fails.
    ///
    /// # Errors
    /// If a program can't be run, or the test fails without the mutation, too.
    pub(crate) fn run(&self, file: &str, number: usize, suites: &[Suite]) -> io::Result<Outcome> {
        for suite in &self.likely(file, suites) {
            match run(suite, number)? {
                Outcome::Survived => {}
                outcome => return Ok(outcome),
            }
        }
        for suite in suites {
            let outcome = run(suite, number)?;
            if number != 0 {
                self.check_sound(suite, &outcome)?;
            }
            // Slow tests would cost more for other mutations than they save.
            if let Outcome::Caught(test) = &outcome
                && suite.is_quick()
            {
                self.remember(file, test, &suite.program);
            }
            if outcome != Outcome::Survived {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survived)
    }

    /// Checks that what failed passes without a mutation; otherwise the failure would mean nothing.
    fn check_sound(&self, suite: &Suite, outcome: &Outcome) -> io::Result<()> {
        let mut alone = suite.clone();
        match outcome {
            Outcome::Caught(test) if !test.is_empty() => {
                alone = Suite::named(&suite.program, std::iter::once(test.clone()));
                alone.seconds = suite.seconds;
            }
            // Nobody knows which test it was.
            Outcome::Caught(_) | Outcome::Hung => {}
            Outcome::Survived | Outcome::DoesNotBuild => return Ok(()),
        }
        if self.sound.lock().is_ok_and(|sound| sound.contains(&alone)) {
            return Ok(());
        }
        match run(&alone, 0)? {
            Outcome::Survived => {}
            outcome => {
                let program = suite.program.path.display();
                let error = format!("without any mutation, {program} fails: {outcome:?}");
                return Err(io::Error::other(error));
            }
        }
        if let Ok(mut sound) = self.sound.lock() {
            sound.push(alone);
        }
        Ok(())
    }

    /// The tests that caught other mutations in the same file.
    fn likely(&self, file: &str, suites: &[Suite]) -> Vec<Suite> {
        let Ok(killers) = self.killers.lock() else {
            return Vec::new();
        };
        let known = killers.get(file).map_or(&[][..], Vec::as_slice);
        let mut programs: Vec<&Program> = Vec::new();
        for suite in suites {
            if !programs.contains(&&suite.program) {
                programs.push(&suite.program);
            }
        }
        let named = programs.into_iter().filter_map(|program| {
            let mut names = known
                .iter()
                .rev()
                .filter(|(_, of)| of == program)
                .map(|(name, _)| name.clone())
                .peekable();
            names.peek()?;
            Some(Suite::named(program, names))
        });
        named.collect()
    }

    fn remember(&self, file: &str, test: &str, program: &Program) {
        if let Ok(mut killers) = self.killers.lock() {
            let known = killers.entry(file.to_owned()).or_default();
            known.push((test.to_owned(), program.clone()));
            if known.len() > KILLERS {
                known.remove(0);
            }
        }
    }
}

/// Runs the tests of a suite until one fails.
fn run(suite: &Suite, number: usize) -> io::Result<Outcome> {
    let mut child = Command::new("timeout")
        .args([
            "--signal=KILL",
            &suite.most_seconds().to_string(),
            "prlimit",
        ])
        .arg(format!("--cpu={}", suite.seconds))
        .arg(format!("--as={MOST_BYTES}"))
        .arg(&suite.program.path)
        .args(&suite.arguments)
        .current_dir(&suite.program.folder)
        .env("CARGO_MANIFEST_DIR", &suite.program.folder)
        .env("ROCE_MUTANT", number.to_string())
        .env("RUST_TEST_THREADS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut last = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap_or_default();
            if line.starts_with("test ") {
                last = line;
            }
            if last.ends_with("... FAILED") {
                stop(&mut child)?;
                return Ok(Outcome::Caught(name(&last)));
            }
        }
    }
    let status = child.wait()?;
    // `timeout` exits as its program did, or with a code above 128 for a signal.
    let signal = status.signal().or(status.code().map(|code| code - 128));
    Ok(match signal {
        _ if status.success() => Outcome::Survived,
        Some(SIGXCPU | SIGKILL) => Outcome::Hung,
        _ => Outcome::Caught(name(&last)),
    })
}

/// The signal that ends a program that has computed for too long.
const SIGXCPU: i32 = 24;
/// The signal that ends a program that has waited for too long.
const SIGKILL: i32 = 9;

/// The test's name in a line "test NAME ... ok".
fn name(line: &str) -> String {
    let rest = line.strip_prefix("test ").unwrap_or(line);
    let end = [" ... ", " - "].iter().filter_map(|end| rest.find(end));
    rest[..end.min().unwrap_or(rest.len())].to_owned()
}

/// Ends the program: `timeout` forwards the signal, and waits for the program.
fn stop(timeout: &mut Child) -> io::Result<()> {
    let id = timeout.id().to_string();
    // The shell has it; the program of this name is missing on small machines.
    Command::new("sh")
        .args(["-c", "kill -TERM \"$0\"", &id])
        .status()?;
    timeout.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script in place of a test program.
    fn script(text: &str, seconds: u32) -> Suite {
        Suite {
            program: Program {
                path: "/bin/sh".into(),
                folder: "/".into(),
            },
            arguments: vec!["-c".to_owned(), text.to_owned()],
            seconds,
        }
    }

    #[test]
    fn the_first_failing_test_is_named() {
        let says = "echo 'test a ... ok'; echo 'test b ... FAILED'; sleep 1000";
        let outcome = run(&script(says, 10), 3).expect("there is a shell");
        assert_eq!(outcome, Outcome::Caught("b".to_owned()));
    }

    #[test]
    fn a_test_that_aborts_is_named() {
        let says = "echo 'test a ... ok'; printf 'test b - should panic ... '; kill -6 $$";
        let outcome = run(&script(says, 10), 3).expect("there is a shell");
        assert_eq!(outcome, Outcome::Caught("b".to_owned()));
    }

    #[test]
    fn a_mutation_survives_passing_tests_which_see_its_number() {
        let says = "test $ROCE_MUTANT = 3 && echo 'test a ... ok'";
        let outcome = run(&script(says, 10), 3).expect("there is a shell");
        assert_eq!(outcome, Outcome::Survived);
        let outcome = run(&script(says, 10), 4).expect("there is a shell");
        assert_eq!(outcome, Outcome::Caught(String::new()));
    }

    #[test]
    fn a_program_that_computes_for_ever_hangs() {
        let outcome = run(&script("while :; do :; done", 1), 3).expect("there is a shell");
        assert_eq!(outcome, Outcome::Hung);
    }

    #[test]
    fn a_test_that_caught_a_mutation_runs_first_on_the_next() {
        let runner = Runner::default();
        let suite = script("echo 'test a ... FAILED'", 10);
        runner
            .run("f", 0, std::slice::from_ref(&suite))
            .expect("a shell");
        let likely = runner.likely("f", &[suite.clone(), suite.clone()]);
        let names: Vec<_> = likely.iter().map(|suite| &suite.arguments).collect();
        assert_eq!(names, [&["--exact", "a"]]);
        assert!(runner.likely("g", &[suite]).is_empty());
    }

    #[test]
    fn what_fails_without_a_mutation_catches_none() {
        let runner = Runner::default();
        let outcome = runner.run("f", 3, &[script("test $ROCE_MUTANT = 0", 10)]);
        assert_eq!(outcome.expect("a shell"), Outcome::Caught(String::new()));
        let outcome = runner.run("g", 3, &[script("false", 10)]);
        let error = outcome.expect_err("it fails with any number");
        assert!(error.to_string().contains("without any"), "{error}");
    }
}
