//! The result of a hunt, as text, TAP, JUnit's XML or JSON.

mod json;
mod junit;
mod tap;
#[cfg(test)]
mod tests;
mod text;

use super::runner::Outcome;
use clap::ValueEnum;
use roce_trust::output;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// The form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HuntFormat {
    /// For people
    #[default]
    Text,
    /// Test Anything Protocol 14
    Tap,
    /// XML as JUnit's, which most CI systems show
    Junit,
    /// One object
    Json,
}

/// The result of a hunt.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The command line of the test.
    pub(super) test: String,
    pub(super) seed: u64,
    /// The names of the categories.
    pub(super) with: Vec<String>,
    /// The command that repeats the hunt.
    pub(super) again: String,
    /// The run without faults. It fails only if there are no others.
    pub(super) undisturbed: RunReport,
    /// A run that takes longer counts as hung.
    pub(super) limit: Duration,
    pub(super) runs: Vec<RunReport>,
    /// Of the first run that failed, if one did.
    pub(super) smallest: Option<Smallest>,
}

#[derive(Clone, Debug)]
pub(super) struct RunReport {
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
    pub(super) faults: String,
    pub(super) failure: Option<Failure>,
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// In a few words.
    pub(super) what: String,
    /// The command that repeats it.
    pub(super) again: String,
    /// The last lines of its output.
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The fewest faults that make the test fail.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Smallest {
    /// Empty if it also fails without faults.
    pub(super) faults: String,
    pub(super) again: String,
    /// How many runs with these faults failed at the end, of how many.
    pub(super) failed: u32,
    pub(super) of: u32,
    /// The runs that it took to find them.
    pub(super) runs: u32,
    /// Whether nothing was left to try.
    pub(super) complete: bool,
}

/// The last lines of an output to print.
const LINES: usize = 20;

impl Report {
    /// Prints it on stdout.
    ///
    /// # Errors
    /// If stdout can't be written.
    pub(super) fn print(&self, format: HuntFormat) -> io::Result<()> {
        let text = match format {
            HuntFormat::Text => text::of(self),
            HuntFormat::Tap => tap::of(self),
            HuntFormat::Junit => junit::of(self),
            HuntFormat::Json => json::of(self)?,
        };
        output::print(format_args!("{text}"))
    }

    /// The runs that failed, with their numbers.
    pub(super) fn failed(&self) -> impl Iterator<Item = (usize, &RunReport, &Failure)> {
        let numbered = self.runs.iter().zip(1..);
        numbered.filter_map(|(run, number)| Some((number, run, run.failure.as_ref()?)))
    }

    pub(super) fn failures(&self) -> usize {
        self.failed().count()
    }
}

/// The results of shrinking, as sentences.
fn sentences(smallest: &Smallest) -> String {
    let Smallest {
        faults,
        failed,
        of,
        runs,
        complete,
        ..
    } = smallest;
    let how = match complete {
        true => format!("found in {runs} runs"),
        false => format!("the best of {runs} runs, after which the time for shrinking was up"),
    };
    match (faults.as_str(), failed) {
        ("", _) => format!(
            "It also fails without faults now and then ({failed} of {of} runs at the end), so these \
             need not be the cause"
        ),
        (faults, 0) => format!(
            "It did not fail again: {of} runs with {faults} passed ({how}). It depends on timing"
        ),
        (faults, failed) => {
            format!(
                "The fewest faults with which it fails, in {failed} of {of} runs: {faults} ({how})"
            )
        }
    }
}

/// The last lines of an output.
fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    let count = text.lines().count();
    text.lines().skip(count.saturating_sub(LINES))
}
