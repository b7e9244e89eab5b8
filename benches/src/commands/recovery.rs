//! Measures the cost of packet loss in simulation, and writes docs/generated/recovery.md.

use clap::Parser;
use roce_benches::command::print;
use roce_benches::recovery::figures::{self, Figures};
use std::path::{Path, PathBuf};

/// Goodput over a wire that loses packets, simulated: selective recovery compared with go-back-N
///
/// Prints a table; with --write it replaces recovery.md, recovery.svg and recovery.csv in
/// that folder. The same seeds give the same figures on every machine.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Messages of 64 KiB in each run
    #[arg(long, default_value_t = 4000)]
    messages: u64,

    /// Runs of each kind, with seeds from 1 on
    #[arg(long, default_value_t = 5)]
    runs: u64,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let figures = Figures::measure(args.messages, args.runs)?;
    print(format_args!(
        "WRITE\n{}\nREAD\n{}",
        figures.table(),
        figures.reads_table()
    ))?;
    let Some(folder) = &args.write else {
        return Ok(());
    };
    write(folder, "recovery.md", &figures.page())?;
    write(folder, "recovery.csv", &figures.csv())?;
    write(folder, "recovery.svg", &figures::plot(&figures)?)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("writing {}: {e}", path.display()))
}
