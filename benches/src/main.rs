//! Runs the benchmarks and prints their table.

use clap::Parser;
use roce_benches::command::{Comparing, finish, progress, step};
use roce_benches::report::{Comparison, Goal};
use roce_benches::veth::VethPair;
use roce_benches::{packet, peers, roce};
use std::path::PathBuf;
use std::process::ExitCode;

/// Benchmarks compared with iperf3, sockperf and a bare CRC, as ratios taken in one run
///
/// Needs root (it makes two network namespaces), iproute2, iperf3 and sockperf. Prints
/// Markdown; with --write it replaces the figures in docs/benchmarks.md.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u32,

    /// The `roce` command to measure, instead of building it
    #[arg(long, value_name = "FILE")]
    roce: Option<PathBuf>,
}

fn main() -> ExitCode {
    finish("roce-benches", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures", &measure(args)?)
}

/// Everything is measured once in each run, so that drift affects all alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = match &args.roce {
        Some(path) => path.clone(),
        None => roce::build()?,
    };
    let bare_port = roce::build_example("roce-udp", "raw_ceiling")?;
    let pair = VethPair::new(9000)?;
    let ms = u64::from(args.seconds) * 1000;
    let mut bandwidth = Vec::new();
    let mut of_the_port = Vec::new();
    let mut latency = Vec::new();
    let mut checked = Vec::new();
    let mut hidden = Vec::new();
    let bar = progress(args.comparing.runs * 6);
    let step = |what: &'static str| step(&bar, what);
    for _ in 0..args.comparing.runs {
        step("iperf3");
        let tcp = peers::iperf3_tcp(&pair, args.seconds)?.bits_per_second;
        step("roce perf");
        let ours = roce::write(&pair, &roce, "udp", 65536, ms)?;
        bandwidth.push((ours.bits_per_second / 1e9, tcp / 1e9));
        step("bare port");
        let bare = roce::bare_port(&pair, &bare_port)?;
        of_the_port.push((ours.bits_per_second / 1e9, bare / 1e9));
        step("sockperf");
        let udp = peers::sockperf_udp(&pair, args.seconds)?;
        step("roce perf");
        let ours = roce::write(&pair, &roce, "udp", 8, 200)?;
        latency.push((ours.latency_us, udp));
        step("packets");
        let costs = packet::measure(4096)?;
        checked.push((costs.checked_ns, costs.bare_ns));
        hidden.push((costs.hidden_ns, costs.bare_ns));
    }
    bar.finish_and_clear();
    Ok(vec![
        Comparison {
            what: "64 KiB WRITEs over veth, MTU 9000",
            with: "iperf3 TCP",
            unit: "Gb/s",
            runs: bandwidth,
            goal: Goal::AtLeast(1.5),
        },
        Comparison {
            what: "the same",
            with: "the bare UDP port, nothing checked or placed",
            unit: "Gb/s",
            runs: of_the_port,
            goal: Goal::None,
        },
        Comparison {
            what: "half round trip of an 8-byte WRITE",
            with: "sockperf UDP, nonblocked",
            unit: "us",
            runs: latency,
            goal: Goal::AtMost(1.6),
        },
        Comparison {
            what: "parsing and checking a 4 KiB packet",
            with: "the CRC alone",
            unit: "ns",
            runs: checked,
            goal: Goal::AtMost(1.3),
        },
        Comparison {
            what: "the same through a socket that hides IPv4's identification",
            with: "the CRC alone",
            unit: "ns",
            runs: hidden,
            goal: Goal::None,
        },
    ])
}
