//! The Test Anything Protocol, version 14.

use super::{Failure, Report, RunReport, last_lines, sentences};
use std::fmt::Write as _;

pub(super) fn of(report: &Report) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", report.runs.len() + 1);
    point(&mut text, 1, "without faults", &report.undisturbed);
    if let Some(failure) = &report.undisturbed.failure {
        diagnostics(&mut text, &report.undisturbed, failure);
        let _ = writeln!(text, "Bail out! {}", one_line(&failure.what));
    }
    let first = report.failed().map(|(number, ..)| number).next();
    for (run, number) in report.runs.iter().zip(1..) {
        point(&mut text, number + 1, &format!("run {number}"), run);
        let Some(failure) = &run.failure else {
            continue;
        };
        diagnostics(&mut text, run, failure);
        if first == Some(number)
            && let Some(smallest) = &report.smallest
        {
            let _ = writeln!(text, "# {}", sentences(smallest));
            let _ = writeln!(text, "# again: {}", one_line(&smallest.again));
        }
    }
    text
}

fn point(text: &mut String, number: usize, name: &str, run: &RunReport) {
    let not = if run.failure.is_some() { "not " } else { "" };
    let faults = match run.faults.as_str() {
        "" => String::new(),
        faults => format!(": {faults}"),
    };
    let _ = writeln!(text, "{not}ok {number} - {name}{faults}");
}

/// A block of YAML, whose strings are those of JSON.
fn diagnostics(text: &mut String, run: &RunReport, failure: &Failure) {
    let tail = |printed: &str| last_lines(printed).collect::<Vec<_>>().join("\n");
    let _ = writeln!(text, "  ---");
    for (name, value) in [
        ("message", failure.what.clone()),
        ("again", failure.again.clone()),
        ("stdout", tail(&failure.stdout)),
        ("stderr", tail(&failure.stderr)),
    ] {
        let value = serde_json::Value::from(value);
        let _ = writeln!(text, "  {name}: {value}");
    }
    let _ = writeln!(text, "  seconds: {:.3}", run.time.as_secs_f64());
    let _ = writeln!(text, "  ...");
}

/// A comment ends at the end of its line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
