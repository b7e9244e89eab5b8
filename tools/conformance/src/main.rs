//! `cargo run -p roce-conformance -- --write | --check`

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use roce_conformance::{Report, project_root};
use roce_trust::output::say;
use std::process::ExitCode;

/// The name before messages.
const NAME: &str = "roce-conformance";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let write = match arguments.first().map(String::as_str) {
        Some("--write") => true,
        Some("--check") => false,
        other => {
            let usage = format!(
                "{}: give --write to write the tables in docs/, or --check to see whether they \
                 and all citations are right",
                other.unwrap_or("no argument")
            );
            say(NAME, usage);
            return ExitCode::from(2);
        }
    };
    match run(write) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in problems {
                say(NAME, problem);
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            say(NAME, error);
            ExitCode::FAILURE
        }
    }
}

fn run(write: bool) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let root = project_root();
    let report = Report::load(&root)?;
    let mut problems = report.problems();
    if write {
        for (path, text) in report.documents() {
            std::fs::write(root.join(path), text)?;
        }
    } else {
        problems.extend(report.outdated(&root));
    }
    Ok(problems)
}
