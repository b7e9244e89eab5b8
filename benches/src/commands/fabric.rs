//! Compares the emulated network with the simulated one, and measures the emulator's limits.

use clap::Parser;
use roce_benches::command::{print, progress, step};
use roce_benches::emulation::{Incast, limits, real_time, table, virtual_time};
use roce_benches::median;
use roce_benches::output::output;
use roce_benches::page::{machine, write_between};
use roce_benches::roce;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Real time beside virtual time
///
/// Eight hosts send to a ninth one: in virtual time, as `roce sim` runs experiments, and in real
/// time with programs of perftest in `roce fabric`, with the same links, switch and parameters of
/// congestion control. Needs perftest; with --limits also root, iproute2, iperf3 and
/// ibverbs-utils.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Number of measurements of each figure
    #[arg(long, default_value_t = 5)]
    runs: u32,

    /// The rate of each link, in Mbit/s
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    rate: u32,

    /// The delay of each link, in microseconds
    #[arg(long, value_name = "N", default_value_t = 10)]
    delay: u32,

    /// The seconds of a run; figures are from its second half
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=40))]
    seconds: u32,

    /// Measure the most packets per second and the added latency instead
    #[arg(long)]
    limits: bool,

    /// A `roce` command that is built already, with its libraries beside it
    #[arg(long, value_name = "FILE")]
    roce: Option<PathBuf>,

    /// A page to write the figures into, between its two marker lines
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let roce = match &args.roce {
        Some(path) => std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => build()?,
    };
    let (marker, text) = match args.limits {
        true => ("limits", limits_page(&roce, args.runs)?),
        false => ("incast", incast_page(&roce, args)?),
    };
    print(&text)?;
    match &args.write {
        Some(path) => write_between(path, marker, &text),
        None => Ok(()),
    }
}

fn build() -> Result<PathBuf, String> {
    let roce = roce::build()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", roce::PROFILE, "--quiet"]);
    cargo.args(["-p", "roce-verbs-shim", "-p", "roce-preload"]);
    output(cargo)?;
    Ok(roce)
}

fn incast_page(roce: &Path, args: &Args) -> Result<String, String> {
    let scenario = Incast {
        megabits_per_sec: args.rate,
        delay_us: args.delay,
        seconds: args.seconds,
    };
    let bar = progress(args.runs * 2);
    let (mut simulated, mut emulated, mut lags) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=args.runs.into() {
        step(&bar, "virtual time");
        simulated.push(virtual_time::measure(&scenario, seed)?);
        step(&bar, "real time");
        let (figures, lag) = real_time::measure(roce, &scenario, seed)?;
        emulated.push(figures);
        lags.push(format!("- {lag}\n"));
    }
    bar.finish_and_clear();
    Ok(format!(
        "Machine: {}. Links of {} Mbit/s; medians of {} runs.\n\n{}\nThe emulator's lag in each \
         run:\n\n{}",
        machine(),
        args.rate,
        args.runs,
        table(&simulated, &emulated),
        lags.concat()
    ))
}

fn limits_page(roce: &Path, runs: u32) -> Result<String, String> {
    type Limit = (&'static str, &'static str, fn(&Path) -> Result<f64, String>);
    let limits: [Limit; 4] = [
        ("packets from one host to another", "1000/s", |roce| {
            Ok(limits::measure_packets_per_second(roce, 1)? / 1e3)
        }),
        ("packets between four pairs of hosts", "1000/s", |roce| {
            Ok(limits::measure_packets_per_second(roce, 4)? / 1e3)
        }),
        (
            "half a round trip of 64 bytes",
            "us",
            limits::measure_latency,
        ),
        (
            "the same over a veth pair, without emulation",
            "us",
            limits::measure_latency_without_fabric,
        ),
    ];
    let bar = progress(runs * limits.len() as u32);
    let mut text = format!(
        "Machine: {}.\n\n| what | median | least | most |\n",
        machine()
    );
    text += "|---|---|---|---|\n";
    for (what, unit, measure) in limits {
        let mut figures = Vec::new();
        for _ in 0..runs {
            step(&bar, what);
            figures.push(measure(roce)?);
        }
        figures.sort_by(f64::total_cmp);
        let [least, most] = [figures.first(), figures.last()].map(|one| one.copied());
        let show = |figure: Option<f64>| figure.map_or("-".into(), |f| format!("{f:.1} {unit}"));
        let median = show(median(&figures));
        text += &format!("| {what} | {median} | {} | {} |\n", show(least), show(most));
    }
    bar.finish_and_clear();
    Ok(text)
}
