//! Measures AF_XDP beside its own bare rings, UDP sockets and TCP.

use clap::Parser;
use roce_benches::command::{Comparing, finish, progress, step};
use roce_benches::report::{Comparison, Goal};
use roce_benches::veth::VethPair;
use roce_benches::{peers, roce};
use std::process::ExitCode;

/// AF_XDP beside its own bare rings, UDP sockets and TCP, as ratios taken in one run
///
/// Needs root (it makes two network namespaces), iproute2, iperf3 and sockperf. Prints
/// Markdown; with --write it replaces the figures in docs/benchmarks.md.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

/// Bytes of payload in a packet of path MTU 4096.
const PAYLOAD: f64 = 4096.0;

fn main() -> ExitCode {
    finish("xdp", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), String> {
    args.comparing.tell("figures xdp", &measure(args)?)
}

/// One run of everything.
struct Run {
    raw: roce::RawRings,
    xdp: roce::Figures,
    udp: roce::Figures,
    tcp: peers::Tcp,
    xdp_latency: f64,
    udp_latency: f64,
    sockperf: f64,
}

impl Run {
    /// Thousands of packets per second with 64 KiB WRITEs, or what TCP's bytes would
    /// take of them.
    fn packets(bits_per_second: f64) -> f64 {
        bits_per_second / 8.0 / PAYLOAD / 1e3
    }
}

/// Everything is measured once in each run, so that drift meets all alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    let rings = roce::build_example("roce-xdp", "raw_rings")?;
    let pair = VethPair::new(9000)?;
    let ms = u64::from(args.seconds) * 1000;
    let bar = progress(args.comparing.runs * 7);
    let step = |what: &'static str| step(&bar, what);
    let mut runs = Vec::new();
    for _ in 0..args.comparing.runs {
        runs.push(Run {
            raw: {
                step("bare rings");
                roce::raw_rings(&pair, &rings)?
            },
            xdp: {
                step("AF_XDP");
                roce::write(&pair, &roce, "xdp", 65536, ms)?
            },
            udp: {
                step("UDP sockets");
                roce::write(&pair, &roce, "udp", 65536, ms)?
            },
            tcp: {
                step("iperf3");
                peers::iperf3_tcp(&pair, args.seconds)?
            },
            xdp_latency: {
                step("AF_XDP");
                roce::write(&pair, &roce, "xdp", 8, 200)?.latency_us
            },
            udp_latency: {
                step("UDP sockets");
                roce::write(&pair, &roce, "udp", 8, 200)?.latency_us
            },
            sockperf: {
                step("sockperf");
                peers::sockperf_udp(&pair, args.seconds)?
            },
        });
    }
    bar.finish_and_clear();
    Ok(comparisons(&runs))
}

fn comparisons(runs: &[Run]) -> Vec<Comparison> {
    let row = |what, with, unit, goal, pair: &dyn Fn(&Run) -> (f64, f64)| Comparison {
        what,
        with,
        unit,
        runs: runs.iter().map(pair).collect(),
        goal,
    };
    let carried = |run: &Run| Run::packets(run.xdp.bits_per_second);
    vec![
        row(
            "packets of 64 KiB WRITEs over AF_XDP",
            "bare rings",
            "thousand/s",
            Goal::AtLeast(0.85),
            &|run| (carried(run), run.raw.received_per_second / 1e3),
        ),
        row(
            "the same",
            "over UDP sockets",
            "thousand/s",
            Goal::None,
            &|run| (carried(run), Run::packets(run.udp.bits_per_second)),
        ),
        row(
            "the same",
            "iperf3 TCP, its bytes in such packets",
            "thousand/s",
            Goal::None,
            &|run| (carried(run), Run::packets(run.tcp.bits_per_second)),
        ),
        row(
            "half round trip of an 8-byte WRITE over AF_XDP",
            "echo of bare rings",
            "us",
            Goal::AtMost(1.3),
            &|run| (run.xdp_latency, run.raw.half_round_trip_us),
        ),
        row("the same", "over UDP sockets", "us", Goal::None, &|run| {
            (run.xdp_latency, run.udp_latency)
        }),
        row(
            "the same",
            "sockperf UDP, nonblocked",
            "us",
            Goal::None,
            &|run| (run.xdp_latency, run.sockperf),
        ),
        row(
            "processor time of both ends, 64 KiB WRITEs over AF_XDP",
            "over UDP sockets",
            "s/GB",
            Goal::None,
            &|run| {
                let [xdp, udp] = [&run.xdp, &run.udp].map(|f| f.cpu_seconds_per_gigabyte);
                (xdp, udp)
            },
        ),
        row("the same", "iperf3 TCP", "s/GB", Goal::None, &|run| {
            (
                run.xdp.cpu_seconds_per_gigabyte,
                run.tcp.cpu_seconds_per_gigabyte,
            )
        }),
    ]
}
