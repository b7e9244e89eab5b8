//! Measures unmodified programs on this stack's libibverbs, compared with `roce perf`.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::report::{Comparison, Goal, compare_each};
use roce_benches::veth::VethPair;
use roce_benches::{peers, perftest, roce};

/// ib_write_bw and ib_write_lat compared with roce perf, as ratios taken in one run
///
/// Needs root (it makes two network namespaces), iproute2, iperf3 and perftest. Prints
/// Markdown; with --write it replaces the figures in docs/generated/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

/// Outstanding messages, and their length in bytes.
const DEPTH: usize = 64;
const SIZE: usize = 65536;

/// Round trips.
const ROUNDS: u32 = 20_000;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures programs", &measure(args)?)
}

/// One run of everything.
struct Run {
    program: f64,
    perf: f64,
    tcp: f64,
    program_latency: f64,
    perf_latency: f64,
    polled_latency: f64,
}

/// Everything is measured once in each run, so that drift affects all alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    perftest::build_library()?;
    let pair = VethPair::new(9000)?;
    let ms = u64::from(args.seconds) * 1000;
    let bar = progress(args.comparing.runs * 6);
    let step = |what: &'static str| step(&bar, what);
    let mut runs = Vec::new();
    for _ in 0..args.comparing.runs {
        runs.push(Run {
            program: {
                step("ib_write_bw");
                perftest::measure_write_bandwidth(&pair, &roce, SIZE, DEPTH, args.seconds)?
            },
            perf: {
                step("roce perf");
                roce::write(&pair, &roce, "udp", SIZE, ms)?.bits_per_second
            },
            tcp: {
                step("iperf3");
                peers::run_iperf3_tcp(&pair, args.seconds)?.bits_per_second
            },
            program_latency: {
                step("ib_write_lat");
                perftest::measure_write_latency(&pair, &roce, ROUNDS)?
            },
            perf_latency: {
                step("roce perf --watch-memory");
                roce::measure_watched_latency(&pair, &roce, ROUNDS)?
            },
            polled_latency: {
                step("roce perf");
                roce::write(&pair, &roce, "udp", 8, 200)?.latency_us
            },
        });
    }
    bar.finish_and_clear();
    Ok(comparisons(&runs))
}

fn comparisons(runs: &[Run]) -> Vec<Comparison> {
    let row = compare_each(runs);
    let latency = "half round trip of an 8-byte WRITE, ib_write_lat";
    vec![
        row(
            "64 KiB WRITEs, ib_write_bw",
            "roce perf",
            "Gb/s",
            Goal::AtLeast(0.95),
            &|run| (run.program / 1e9, run.perf / 1e9),
        ),
        row("the same", "iperf3 TCP", "Gb/s", Goal::None, &|run| {
            (run.program / 1e9, run.tcp / 1e9)
        }),
        row(
            latency,
            "roce perf --watch-memory",
            "us",
            Goal::AtMost(1.05),
            &|run| (run.program_latency, run.perf_latency),
        ),
        row(
            "the same",
            "roce perf, which drives the NIC while it waits",
            "us",
            Goal::None,
            &|run| (run.program_latency, run.polled_latency),
        ),
    ]
}
