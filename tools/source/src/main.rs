//! `cargo run -p roce-source -- --write | --check`

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use roce_source::{listings, outdated, project_root};
use roce_trust::output::say;
use std::error::Error;
use std::process::ExitCode;

/// The name before messages.
const NAME: &str = "roce-source";

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("--write") => write().map(|()| Vec::new()),
        Some("--check") => outdated(&project_root()),
        other => {
            let usage = format!(
                "{}: give --write to write the public API of each published crate to docs/api, or \
                 --check to compare docs/api with the sources",
                other.unwrap_or("no argument")
            );
            say(NAME, usage);
            return ExitCode::from(2);
        }
    };
    match done {
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

fn write() -> Result<(), Box<dyn Error>> {
    let root = project_root();
    std::fs::create_dir_all(root.join("docs/api"))?;
    for (path, text) in listings()? {
        std::fs::write(root.join(path), text)?;
    }
    Ok(())
}
