//! `cargo run -p roce-source -- --write | --check`

use roce_source::{listings, outdated, project_root};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("--write") => write().map(|()| Vec::new()),
        Some("--check") => outdated(&project_root()),
        other => {
            eprintln!(
                "{}: give --write to write the public API of each published crate to docs/api, or \
                 --check to compare docs/api with the sources",
                other.unwrap_or("no argument")
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in problems {
                eprintln!("{problem}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
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
