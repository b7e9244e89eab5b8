//! Measures UCX, libfabric and Open MPI over this stack and over TCP.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::frameworks::{Built, FRAMEWORKS, Figures, Transport};
use roce_benches::report::{Comparison, Goal, compare_each};
use roce_benches::{perftest, roce};

/// UCX, libfabric and Open MPI over this stack compared with TCP, as ratios taken in one run
///
/// Needs iproute2, nftables, ucx-utils, libfabric-bin, openmpi-bin and libopenmpi-dev. Prints
/// Markdown; with --write it replaces the figures in docs/generated/frameworks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing
        .publish("figures frameworks", &measure(args)?)
}

/// The two alternate, so that drift affects both alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    perftest::build_library()?;
    let built = Built::find_beside(&roce)?;
    let bar = progress(args.comparing.runs * 2 * FRAMEWORKS.len() as u32);
    let mut pairs = vec![Vec::new(); FRAMEWORKS.len()];
    for _ in 0..args.comparing.runs {
        for (framework, pairs) in FRAMEWORKS.iter().zip(&mut pairs) {
            step(&bar, framework.name);
            let ours = framework.run(&built, Transport::Sockets)?;
            step(&bar, framework.name);
            pairs.push((ours, framework.run(&built, Transport::Tcp)?));
        }
    }
    bar.finish_and_clear();
    // If it can't be removed, a later run overwrites it.
    let _ = std::fs::remove_file(&built.mpi);
    let rows = FRAMEWORKS.iter().zip(&pairs);
    Ok(rows
        .flat_map(|(framework, pairs)| rows_of(framework.name, pairs))
        .collect())
}

fn rows_of(name: &'static str, pairs: &[(Figures, Figures)]) -> [Comparison; 3] {
    let rows = compare_each(pairs);
    let row = |what, with, unit, figure: fn(&Figures) -> f64| {
        rows(what, with, unit, Goal::None, &|(ours, theirs)| {
            (figure(ours), figure(theirs))
        })
    };
    [
        row(name, "TCP, half round trip of 8 bytes", "us", |f| f.latency),
        row("the same", "TCP, 64 KiB", "Gb/s", |f| f.medium / 1e9),
        row("the same", "TCP, 1 MiB", "Gb/s", |f| f.large / 1e9),
    ]
}
