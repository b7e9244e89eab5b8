//! Runs the benchmarks and prints their table.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::report::{Comparison, Goal};
use roce_benches::veth::VethPair;
use roce_benches::{packet, peers, perftest, roce};
use std::path::PathBuf;

/// Benchmarks compared with iperf3, sockperf and a bare CRC, as ratios taken in one run
///
/// Needs root (it makes two network namespaces), iproute2, iperf3, sockperf and perftest. Prints
/// Markdown; with --write it replaces the figures in docs/generated/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u32,

    /// The `roce` command to measure, instead of building it
    #[arg(long, value_name = "FILE")]
    roce: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    args.comparing.publish("figures", &measure(args)?)
}

/// The figures of all runs, a pair of ours and theirs for each.
#[derive(Default)]
struct Figures {
    write: Vec<(f64, f64)>,
    read: Vec<(f64, f64)>,
    large: Vec<(f64, f64)>,
    of_the_ends: Vec<(f64, f64)>,
    of_the_port: Vec<(f64, f64)>,
    processor: Vec<(f64, f64)>,
    write_latency: Vec<(f64, f64)>,
    send_latency: Vec<(f64, f64)>,
    checked: Vec<(f64, f64)>,
    hidden: Vec<(f64, f64)>,
}

/// The programs to measure.
struct Programs {
    roce: PathBuf,
    bare_port: PathBuf,
    bare_ends: PathBuf,
}

/// Everything is measured once in each run, so that drift affects all alike.
fn measure(args: &Args) -> Result<Vec<Comparison>, String> {
    let programs = Programs {
        roce: match &args.roce {
            Some(path) => path.clone(),
            None => roce::build()?,
        },
        bare_port: roce::build_example("roce-udp", "raw_ceiling")?,
        bare_ends: roce::build_example("roce-benches", "bare_ends")?,
    };
    perftest::build_library()?;
    let pair = VethPair::new(9000)?;
    let mut figures = Figures::default();
    let bar = progress(args.comparing.runs * 10);
    for _ in 0..args.comparing.runs {
        figures.add_run(&pair, &programs, args.seconds, &|what| step(&bar, what))?;
    }
    bar.finish_and_clear();
    Ok(figures.into_comparisons())
}

impl Figures {
    fn add_run(
        &mut self,
        pair: &VethPair,
        programs: &Programs,
        seconds: u32,
        step: &dyn Fn(&'static str),
    ) -> Result<(), String> {
        let gigabits = |bits_per_second: f64| bits_per_second / 1e9;
        let roce = &programs.roce;
        let ms = u64::from(seconds) * 1000;
        step("iperf3");
        let tcp = peers::run_iperf3_tcp(pair, seconds)?;
        let tcp_rate = gigabits(tcp.bits_per_second);
        step("roce perf, WRITE");
        let write = roce::write(pair, roce, "udp", 65536, ms)?;
        let rate = gigabits(write.bits_per_second);
        self.write.push((rate, tcp_rate));
        let processor = |figures: &roce::Figures| figures.cpu_seconds_per_gigabyte;
        self.processor
            .push((processor(&write), tcp.cpu_seconds_per_gigabyte));
        step("both ends, no protocol");
        let ends = roce::run_bare_ends(pair, &programs.bare_ends, seconds)?;
        self.of_the_ends.push((rate, gigabits(ends)));
        step("bare port");
        let port = roce::run_bare_port(pair, &programs.bare_port)?;
        self.of_the_port.push((rate, gigabits(port)));
        step("roce perf, READ");
        let read = roce::read(pair, roce, 65536, ms)?;
        self.read.push((gigabits(read.bits_per_second), tcp_rate));
        step("roce perf, 1 MiB");
        let large = roce::write(pair, roce, "udp", 1 << 20, ms)?;
        self.large.push((gigabits(large.bits_per_second), tcp_rate));
        step("sockperf");
        let udp = peers::run_sockperf_udp(pair, seconds)?;
        step("roce perf, 8 bytes");
        let small = roce::write(pair, roce, "udp", 8, 200)?;
        self.write_latency.push((small.latency_us, udp));
        step("ib_send_lat");
        let send = perftest::measure_send_latency(pair, roce, 100_000)?;
        self.send_latency.push((send, udp));
        step("packets");
        let costs = packet::measure(4096)?;
        self.checked.push((costs.checked_ns, costs.bare_ns));
        self.hidden.push((costs.hidden_ns, costs.bare_ns));
        Ok(())
    }

    fn into_comparisons(self) -> Vec<Comparison> {
        let compare = |what: &'static str, unit, with, runs, goal| Comparison {
            what: what.into(),
            with,
            unit,
            runs,
            goal,
        };
        let (tcp, udp) = ("iperf3 TCP", "sockperf UDP, nonblocked");
        let crc = "the CRC alone";
        let (at_least, at_most) = (Goal::AtLeast, Goal::AtMost);
        let what = "64 KiB WRITEs over veth, MTU 9000";
        vec![
            compare(what, "Gb/s", tcp, self.write, at_least(2.5)),
            compare(
                "the same",
                "Gb/s",
                "both ends without a protocol",
                self.of_the_ends,
                at_least(0.8),
            ),
            compare(
                "the same",
                "Gb/s",
                "the bare UDP port, nothing checked or placed",
                self.of_the_port,
                Goal::None,
            ),
            compare(
                "processor time of both ends",
                "s/GB",
                tcp,
                self.processor,
                at_most(0.6),
            ),
            compare("64 KiB READs", "Gb/s", tcp, self.read, at_least(2.0)),
            compare("1 MiB WRITEs", "Gb/s", tcp, self.large, at_least(2.5)),
            compare(
                "half round trip of an 8-byte WRITE",
                "us",
                udp,
                self.write_latency,
                at_most(1.1),
            ),
            compare(
                "half round trip of an 8-byte SEND by ib_send_lat",
                "us",
                udp,
                self.send_latency,
                at_most(1.2),
            ),
            compare(
                "parsing and checking a 4 KiB packet",
                "ns",
                crc,
                self.checked,
                at_most(1.3),
            ),
            compare(
                "the same through a socket that hides IPv4's identification",
                "ns",
                crc,
                self.hidden,
                Goal::None,
            ),
        ]
    }
}
