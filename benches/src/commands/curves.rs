//! Draws bandwidth by message size and latency by percentile.

use clap::Parser;
use roce_benches::command::{print, progress, step};
use roce_benches::curves::{Programs, STEPS, measure, plot, table};
use roce_benches::page::{machine, write_between};
use roce_benches::roce;
use roce_benches::veth::VethPair;
use std::path::PathBuf;

/// The picture of docs/generated/benchmarks.md: bandwidth by message size and latency by percentile
///
/// Needs root (it makes two network namespaces), iproute2, iperf3 and sockperf. Prints the
/// figures; with --write it replaces benchmarks.svg and the table in benchmarks.md of that folder.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Number of measurements of each figure
    #[arg(long, default_value_t = 3)]
    runs: u32,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let programs = Programs {
        roce: &roce::build()?,
        bare_port: &roce::build_example("roce-udp", "raw_ceiling")?,
        bare_ends: &roce::build_example("roce-benches", "bare_ends")?,
    };
    let pair = VethPair::new(9000)?;
    let bar = progress(args.runs * STEPS);
    let curves = measure(&pair, &programs, args.runs, &|what| step(&bar, what))?;
    bar.finish_and_clear();
    let text = format!("Machine: {}.\n\n{}", machine(), table(&curves));
    print(&text)?;
    let Some(folder) = &args.write else {
        return Ok(());
    };
    let picture = folder.join("benchmarks.svg");
    std::fs::write(&picture, plot(&curves)?)
        .map_err(|e| format!("writing {}: {e}", picture.display()))?;
    write_between(&folder.join("benchmarks.md"), "curves", &text)
}
