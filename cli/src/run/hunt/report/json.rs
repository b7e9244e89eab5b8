//! The report for scripts.

use super::super::runner::Outcome;
use super::{Report, RunReport, Smallest};
use serde::Serialize;
use std::io;

#[derive(Serialize)]
struct Json<'a> {
    test: &'a str,
    seed: u64,
    with: &'a [String],
    again: &'a str,
    limit_seconds: f64,
    undisturbed: Run<'a>,
    runs: usize,
    failed: usize,
    failures: Vec<Run<'a>>,
    smallest: Option<&'a Smallest>,
}

#[derive(Serialize)]
struct Run<'a> {
    /// 0 without faults.
    run: usize,
    faults: &'a str,
    /// `null` if it passed.
    failure: Option<&'a str>,
    exit_code: Option<u8>,
    signal: Option<i32>,
    hung: bool,
    seconds: f64,
    again: Option<&'a str>,
    stdout: Option<&'a str>,
    stderr: Option<&'a str>,
}

pub(super) fn of(report: &Report) -> io::Result<String> {
    let failures = report.failed();
    let json = Json {
        test: &report.test,
        seed: report.seed,
        with: &report.with,
        again: &report.again,
        limit_seconds: report.limit.as_secs_f64(),
        undisturbed: run(0, &report.undisturbed),
        runs: report.runs.len(),
        failed: report.failures(),
        failures: failures.map(|(number, it, _)| run(number, it)).collect(),
        smallest: report.smallest.as_ref(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

fn run(number: usize, report: &RunReport) -> Run<'_> {
    let failure = report.failure.as_ref();
    let outcome = report.outcome;
    Run {
        run: number,
        faults: &report.faults,
        failure: failure.map(|failure| failure.what.as_str()),
        exit_code: match outcome {
            Outcome::Code(code) => Some(code),
            _ => None,
        },
        signal: match outcome {
            Outcome::Signal(signal) => Some(signal as i32),
            _ => None,
        },
        hung: matches!(outcome, Outcome::Hung(_)),
        seconds: report.time.as_secs_f64(),
        again: failure.map(|failure| failure.again.as_str()),
        stdout: failure.map(|failure| failure.stdout.as_str()),
        stderr: failure.map(|failure| failure.stderr.as_str()),
    }
}
