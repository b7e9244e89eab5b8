//! Measures many QPs: memory per QP, and total throughput.

use clap::Parser;
use roce_benches::command::print;
use roce_benches::scale::{Many, figures};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};
use std::alloc::System;
use std::path::{Path, PathBuf};

/// Memory and throughput of 10,000 QPs in one process
///
/// Prints the page; with --write it replaces scale.md and scale.svg in that folder.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Messages in each run
    #[arg(long, default_value_t = 60_000)]
    messages: u64,

    /// Number of measurements of each figure
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// The folder to write into
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

/// The number of QPs for measuring memory.
const QPS: usize = 10_000;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let small = measure_bytes_of_each(1)?;
    let large = measure_bytes_of_each(17)?;
    let all = figures::measure_throughput(args.messages, args.rounds)?;
    let page = figures::page(&all, QPS, small, (large - small) / 16.0);
    print(&page)?;
    let Some(folder) = &args.write else {
        return Ok(());
    };
    write(folder, "scale.md", &page)?;
    write(folder, "scale.svg", &figures::plot(&all)?)
}

/// Heap bytes per connected QP with queues of `depth`, without the CQ.
fn measure_bytes_of_each(depth: usize) -> Result<f64, String> {
    let held = |region: &Region<'_, System>| {
        let change = region.change();
        change.bytes_allocated as f64 - change.bytes_deallocated as f64
    };
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let few = Many::new(1, depth)?;
    let fixed = held(&region);
    drop(few);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let cq = roce_stack::CompletionQueue::new(roce_stack::CqId(1), QPS * depth * 2);
    let of_cq = held(&region);
    drop(cq);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let many = Many::new(QPS, depth)?;
    let all = held(&region);
    drop(many);
    // Both ends are in this process.
    Ok((all - of_cq - fixed) / (2 * QPS) as f64)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("writing {}: {e}", path.display()))
}
