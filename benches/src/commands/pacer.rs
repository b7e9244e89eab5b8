//! Measures the pacer: how precisely QPs keep to their rates, and the cost of pacing.

use clap::Parser;
use roce_benches::command::print;
use roce_benches::pacer::figures;
use roce_benches::page::{machine, write_between};
use std::path::PathBuf;

/// Rates and costs of up to 10,000 paced QPs
///
/// Prints Markdown; with --write it replaces the figures in congestion.md of that folder, and
/// congestion/pacer.svg.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Packets in each measurement
    #[arg(long, default_value_t = 300_000)]
    packets: u64,

    /// Number of measurements of each figure
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let worst = figures::measure_worst(figures::QPS[figures::QPS.len() - 1])?;
    let all = figures::measure_costs(args.packets, args.rounds)?;
    let page = figures::page(&all, worst, &machine());
    print(&page)?;
    let Some(folder) = &args.write else {
        return Ok(());
    };
    write_between(&folder.join("congestion.md"), "figures pacer", &page)?;
    let plot = folder.join("congestion/pacer.svg");
    std::fs::write(&plot, figures::plot(&all)?)
        .map_err(|e| format!("writing {}: {e}", plot.display()))
}
