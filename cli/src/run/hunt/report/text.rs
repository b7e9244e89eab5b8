//! The report for people.

use super::{Failure, Report, last_lines, sentences};
use crate::quote::printable;
use std::fmt::Write as _;

pub(super) fn of(report: &Report) -> String {
    let mut text = String::new();
    if let Some(failure) = &report.undisturbed.failure {
        let _ = writeln!(text, "without faults: {}", failure.what);
        output(&mut text, failure);
        return text;
    }
    let failures: Vec<_> = report.failed().collect();
    let _ = writeln!(
        text,
        "{} runs of {} with {}, seed {}: {} failed",
        report.runs.len(),
        report.test,
        report.with.join(", "),
        report.seed,
        match failures.len() {
            0 => "none".to_owned(),
            count => count.to_string(),
        },
    );
    for (number, run, failure) in &failures {
        let _ = writeln!(
            text,
            "  run {number:<4} {:<24} {}",
            failure.what, run.faults
        );
    }
    if let Some((number, _, failure)) = failures.first() {
        let _ = writeln!(text, "\nrun {number}, the first that failed:");
        output(&mut text, failure);
        let _ = writeln!(text, "  again: {}", failure.again);
    }
    if let Some(smallest) = &report.smallest {
        let _ = writeln!(text, "\n{}", sentences(smallest));
        let _ = writeln!(text, "  again: {}", smallest.again);
    }
    text
}

/// The last lines of a run's output.
fn output(text: &mut String, failure: &Failure) {
    for (name, printed) in [("stdout", &failure.stdout), ("stderr", &failure.stderr)] {
        for line in last_lines(printed) {
            let _ = writeln!(text, "  {name}: {}", printable(line));
        }
    }
}
