//! Measures AF_XDP, compared with its own bare rings, UDP sockets and TCP.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::report::{Comparison, Goal, compare_each};
use roce_benches::roce::{Amount, Figures, RawRings};
use roce_benches::veth::VethPair;
use roce_benches::{peers, roce};

/// AF_XDP compared with its own bare rings, UDP sockets and TCP, as ratios taken in one run
///
/// Needs root (it makes two network namespaces), iproute2, iperf3 and sockperf. Prints
/// Markdown; with --write it replaces the figures in docs/generated/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

/// Bytes of payload in a packet of path MTU 4096.
const PAYLOAD: f64 = 4096.0;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures xdp", &measure(args)?)
}

/// 8 outstanding WRITEs keep the link busy, and their 512 KiB stay in the cache.
const FEW: &[&str] = &["--depth", "8"];

/// One WRITE in 32 is signaled.
const SELECTIVE: &[&str] = &["--signal-every", "32"];

/// The machine's speed varies over seconds. A quantity with a goal is measured this many times in a
/// run, each time for a part of the time, alternating with the bare rings; the mean counts.
const TURNS: u32 = 4;

/// One run of everything.
struct Run {
    raw: RawRings,
    xdp_selective: f64,
    xdp_few: Figures,
    xdp_latency: f64,
    xdp: Figures,
    udp_selective: f64,
    udp_few: Figures,
    tcp: peers::Tcp,
    sockperf: f64,
}

impl Run {
    /// The packet rate of 64 KiB WRITEs in thousands per second; for TCP, of as many bytes.
    fn packets(bits_per_second: f64) -> f64 {
        bits_per_second / 8.0 / PAYLOAD / 1e3
    }
}

/// Everything is measured in each run, so that drift affects all alike. Quantities that are
/// compared with the bare rings alternate with them.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let roce = roce::build()?;
    let rings = roce::build_example("roce-xdp", "raw_rings")?;
    let pair = VethPair::new(9000)?;
    let ms = u64::from(args.seconds) * 1000;
    let bar = progress(args.comparing.runs * (3 * TURNS + 6));
    let step = |what: &'static str| step(&bar, what);
    let large = |what, datapath, parts: u32, others: &[&str]| {
        step(what);
        let amount = Amount {
            ms: ms / u64::from(parts),
            iterations: 100,
        };
        roce::measure_write_with(&pair, &roce, datapath, 65536, amount, others)
    };
    let small = |what, datapath, parts: u32, others: &[&str]| {
        step(what);
        let amount = Amount {
            ms: 200,
            iterations: 100_000 / parts,
        };
        roce::measure_write_with(&pair, &roce, datapath, 8, amount, others)
    };
    let mut runs = Vec::new();
    for _ in 0..args.comparing.runs {
        let (mut raw, mut selective, mut few) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            step("bare rings");
            raw.push(roce::run_raw_rings(&pair, &rings)?);
            few.push(large("AF_XDP, 8 outstanding", "xdp", TURNS, FEW)?);
            selective.push(small("AF_XDP, few completions", "xdp", TURNS, SELECTIVE)?);
        }
        runs.push(Run {
            raw: RawRings::mean(&raw),
            xdp_selective: Figures::mean(&selective).latency_us,
            xdp_few: Figures::mean(&few),
            xdp_latency: small("AF_XDP", "xdp", 1, &[])?.latency_us,
            xdp: large("AF_XDP, 64 outstanding", "xdp", 1, &[])?,
            udp_selective: small("UDP sockets, few completions", "udp", 1, SELECTIVE)?.latency_us,
            udp_few: large("UDP sockets, 8 outstanding", "udp", 1, FEW)?,
            tcp: {
                step("iperf3");
                peers::run_iperf3_tcp(&pair, args.seconds)?
            },
            sockperf: {
                step("sockperf");
                peers::run_sockperf_udp(&pair, args.seconds)?
            },
        });
    }
    bar.finish_and_clear();
    Ok(comparisons(&runs))
}

fn comparisons(runs: &[Run]) -> Vec<Comparison> {
    let row = compare_each(runs);
    let carried = |run: &Run| Run::packets(run.xdp_few.bits_per_second);
    let bare = |run: &Run| run.raw.received_per_second / 1e3;
    vec![
        row(
            "packets of 64 KiB WRITEs over AF_XDP, 8 outstanding",
            "bare rings",
            "thousand/s",
            Goal::AtLeast(0.85),
            &|run| (carried(run), bare(run)),
        ),
        row(
            "64 outstanding (4 MiB)",
            "bare rings",
            "thousand/s",
            Goal::None,
            &|run| (Run::packets(run.xdp.bits_per_second), bare(run)),
        ),
        row(
            "8 outstanding",
            "over UDP sockets",
            "thousand/s",
            Goal::None,
            &|run| (carried(run), Run::packets(run.udp_few.bits_per_second)),
        ),
        row(
            "the same",
            "iperf3 TCP, its bytes in such packets",
            "thousand/s",
            Goal::None,
            &|run| (carried(run), Run::packets(run.tcp.bits_per_second)),
        ),
        row(
            "half round trip of an 8-byte WRITE over AF_XDP, one of 32 with completion",
            "echo of bare rings",
            "us",
            Goal::AtMost(1.3),
            &|run| (run.xdp_selective, run.raw.half_round_trip_us),
        ),
        row(
            "each with completion",
            "echo of bare rings",
            "us",
            Goal::None,
            &|run| (run.xdp_latency, run.raw.half_round_trip_us),
        ),
        row(
            "one of 32 with completion",
            "over UDP sockets",
            "us",
            Goal::None,
            &|run| (run.xdp_selective, run.udp_selective),
        ),
        row(
            "the same",
            "sockperf UDP, nonblocked",
            "us",
            Goal::None,
            &|run| (run.xdp_selective, run.sockperf),
        ),
        row(
            "processor time of both ends, 64 KiB WRITEs over AF_XDP",
            "over UDP sockets",
            "s/GB",
            Goal::None,
            &|run| {
                let [xdp, udp] = [&run.xdp_few, &run.udp_few].map(|f| f.cpu_seconds_per_gigabyte);
                (xdp, udp)
            },
        ),
        row("the same", "iperf3 TCP", "s/GB", Goal::None, &|run| {
            (
                run.xdp_few.cpu_seconds_per_gigabyte,
                run.tcp.cpu_seconds_per_gigabyte,
            )
        }),
    ]
}
