//! The performance of ordinary programs, which post one request at a time, send short messages or sleep:
//! perftest, rping, UCX and Open MPI between two hosts, alternating with TCP at the same message size.

mod frameworks;

use crate::output::output;
use crate::peers::{Sockets, Tcp, run_iperf3_tcp_with_size, run_sockperf, start};
use crate::perftest::{self, Transfer};
use crate::report::{Goal, Runs};
use crate::roce::run_bare_ends;
use crate::veth::{ADDRESSES, VethPair};
use clap::ValueEnum;
use frameworks::{measure_open_mpi, measure_ucx};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A part of the measurements. Each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// perftest's bandwidths, messages of 64 bytes to 1 MiB.
    Bandwidth,
    /// Long messages beside TCP with 64 KiB for each call, and beside both ends without a protocol.
    Long,
    /// Short messages: one post at a time beside lists of 16.
    Messages,
    /// Half round trips of programs that spin, and of programs that sleep.
    Latency,
    /// UCX's tag messages.
    Ucx,
    /// Open MPI's messages.
    OpenMpi,
}

impl Part {
    /// Its name on the command line and in marker lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Long => "long",
            Self::Messages => "messages",
            Self::Latency => "latency",
            Self::Ucx => "ucx",
            Self::OpenMpi => "open-mpi",
        }
    }

    /// The number of programs that a run measures.
    pub fn steps(self) -> u32 {
        match self {
            Self::Bandwidth => (TRANSFERS.len() as u32 + 1) * SIZES.len() as u32 + 1,
            Self::Long => TRANSFERS.len() as u32 * LONG.len() as u32 + 2,
            Self::Messages => 6,
            Self::Latency => 7,
            Self::Ucx | Self::OpenMpi => 2,
        }
    }
}

/// The programs to run.
#[derive(Debug)]
pub struct Programs {
    /// The command `roce`.
    pub roce: PathBuf,
    /// Open MPI's benchmark, if it is to be measured.
    pub mpi: Option<PathBuf>,
    /// The example `bare_ends` of this crate, if long messages are to be measured.
    pub bare_ends: Option<PathBuf>,
}

/// The figures of a part over a cable with one MTU.
#[derive(Debug)]
pub struct Measured {
    mtu: usize,
    part: Part,
    runs: Runs,
}

/// The message sizes, in bytes, with their names.
const SIZES: [(usize, &str); 6] = [
    (64, "64 bytes"),
    (1 << 10, "1 KiB"),
    (4 << 10, "4 KiB"),
    (16 << 10, "16 KiB"),
    (64 << 10, "64 KiB"),
    (1 << 20, "1 MiB"),
];

/// Messages of a transfer of `size` bytes each: at most 2 GB, or 300,000.
pub(crate) fn count(size: usize) -> usize {
    (2_000_000_000 / size).min(300_000)
}

/// Measures a part in `runs` runs. Calls `step` before each program.
///
/// # Errors
/// If a program fails.
pub fn measure(
    programs: &Programs,
    (mtu, part): (usize, Part),
    runs: u32,
    step: &dyn Fn(String),
) -> Result<Measured, String> {
    let pair = VethPair::new(mtu)?;
    let mut measured = Measured {
        mtu,
        part,
        runs: Runs::default(),
    };
    let bench = Bench {
        pair: &pair,
        programs,
        step,
    };
    for _ in 0..runs {
        measured.runs.note_state();
        match part {
            Part::Bandwidth => bench.bandwidth(&mut measured)?,
            Part::Long => bench.long(&mut measured)?,
            Part::Messages => bench.messages(&mut measured)?,
            Part::Latency => bench.latency(&mut measured)?,
            Part::Ucx => {
                let figures = [false, true].map(|tcp| {
                    step(format!("UCX{}", if tcp { " over TCP" } else { "" }));
                    measure_ucx(&pair, &programs.roce, tcp)
                });
                measured.add_framework("UCX tag", figures)?;
            }
            Part::OpenMpi => {
                let program = programs.mpi.as_deref().ok_or("no mpicc.openmpi")?;
                let figures = [false, true].map(|tcp| {
                    step(format!("Open MPI{}", if tcp { " over TCP" } else { "" }));
                    measure_open_mpi(&pair, &programs.roce, program, tcp)
                });
                measured.add_framework("Open MPI", figures)?;
            }
        }
    }
    measured.runs.note_state();
    Ok(measured)
}

/// Measures one run.
struct Bench<'a> {
    pair: &'a VethPair,
    programs: &'a Programs,
    step: &'a dyn Fn(String),
}

/// The sizes of long messages, as in [`SIZES`].
const LONG: &[(usize, &str)] = SIZES.split_at(3).1;

/// The MTU from which packets of the path MTU 4096 fit. Both ends without a protocol send such packets.
const LARGE_MTU: usize = 4200;

/// perftest's programs, and their least ratios to TCP with MTU 1500 and with more, for long messages.
/// Otherwise none may be slower than TCP.
const TRANSFERS: [(&str, f64, f64); 3] = [
    ("ib_write_bw", 1.5, 1.8),
    ("ib_send_bw", 1.5, 1.8),
    ("ib_read_bw", 1.3, 1.5),
];

impl Bench<'_> {
    fn transfer(&self, program: &str, size: usize, options: &[&str]) -> Result<Transfer, String> {
        (self.step)(format!("{program} {size}"));
        let roce = &self.programs.roce;
        perftest::measure_transfer(self.pair, roce, program, size, count(size), options)
    }

    /// The processor time of both ends per gigabyte in seconds, without their start and end.
    fn cpu_per_gigabyte(
        &self,
        program: &str,
        size: usize,
        options: &[&str],
        transfer: &Transfer,
    ) -> Result<f64, String> {
        (self.step)(format!("{program} {size}, few messages"));
        let roce = &self.programs.roce;
        let amount = (size, count(size));
        perftest::measure_cpu_per_gigabyte(self.pair, roce, program, amount, options, transfer)
    }

    fn bandwidth(&self, measured: &mut Measured) -> Result<(), String> {
        for (size, name) in SIZES {
            let transfers = TRANSFERS
                .iter()
                .map(|(program, ..)| self.transfer(program, size, &[]))
                .collect::<Result<Vec<_>, _>>()?;
            (self.step)(format!("iperf3 {size}"));
            let tcp = run_iperf3_tcp_with_size(self.pair, 1, size)?;
            for ((program, ..), transfer) in TRANSFERS.iter().zip(&transfers) {
                let rates = [transfer.bits_per_second, tcp.bits_per_second];
                let what = format!("{program}, {name}");
                let [ours, theirs] = rates.map(|rate| rate / 1e9);
                measured.add(what, "TCP", "Gb/s", Goal::AtLeast(1.0), (ours, theirs));
            }
            if size >> 10 == 64 {
                let sleeping = self.transfer("ib_send_bw", size, &["-e"])?;
                let [write, send, read] = transfers[..] else {
                    continue;
                };
                let ends: [(_, &[&str], _); 4] = [
                    ("ib_write_bw", &[], write),
                    ("ib_send_bw", &[], send),
                    ("ib_read_bw", &[], read),
                    ("ib_send_bw", &["-e"], sleeping),
                ];
                for (program, options, ours) in ends {
                    let ours = self.cpu_per_gigabyte(program, size, options, &ours)?;
                    let program = [&[program], options].concat().join(" ");
                    measured.add_processor(&program, name, ours, &tcp);
                }
            }
        }
        Ok(())
    }

    fn long(&self, measured: &mut Measured) -> Result<(), String> {
        let gigabits = |rate: f64| rate / 1e9;
        (self.step)("iperf3 65536".to_owned());
        let tcp = run_iperf3_tcp_with_size(self.pair, 1, 64 << 10)?;
        let tcp = gigabits(tcp.bits_per_second);
        let is_large = measured.mtu >= LARGE_MTU;
        let ends = match self.programs.bare_ends.as_deref() {
            Some(program) if is_large => {
                (self.step)("both ends, no protocol".to_owned());
                Some(gigabits(run_bare_ends(self.pair, program, 1)?))
            }
            _ => None,
        };
        for (size, name) in LONG {
            for (program, small, large) in TRANSFERS {
                let rate = gigabits(self.transfer(program, *size, &[])?.bits_per_second);
                let what = format!("{program}, {name}");
                let goal = match (is_large, *size) {
                    (true, _) => Goal::AtLeast(large),
                    (false, ..=0x1_0000) => Goal::AtLeast(small),
                    (false, _) => Goal::None,
                };
                let with = "TCP, 64 KiB";
                measured.add(what.clone(), with, "Gb/s", goal, (rate, tcp));
                if let Some(ends) = ends {
                    let goal = match program {
                        "ib_read_bw" => Goal::None,
                        _ => Goal::AtLeast(0.85),
                    };
                    let with = "both ends without a protocol";
                    measured.add(what, with, "Gb/s", goal, (rate, ends));
                }
            }
        }
        Ok(())
    }

    fn messages(&self, measured: &mut Measured) -> Result<(), String> {
        for (size, name, goal) in [(64, "64 bytes", 0.7), (4096, "4 KiB", 0.8)] {
            let lists = self.transfer("ib_write_bw", size, &["-l", "16"])?;
            for program in ["ib_write_bw", "ib_send_bw"] {
                let single = self.transfer(program, size, &[])?;
                measured.add(
                    format!("{program}, {name}, one post at a time"),
                    "ib_write_bw in lists of 16",
                    "million/s",
                    Goal::AtLeast(goal),
                    (
                        single.messages_per_second / 1e6,
                        lists.messages_per_second / 1e6,
                    ),
                );
            }
        }
        Ok(())
    }

    fn latency(&self, measured: &mut Measured) -> Result<(), String> {
        let roce = &self.programs.roce;
        let ours = |program, rounds, options: &[&str]| {
            (self.step)(format!("{program} {}", options.join(" ")));
            perftest::measure_latency(self.pair, roce, program, rounds, options)
        };
        let theirs = |sockets| {
            (self.step)(format!("sockperf, {sockets:?}"));
            run_sockperf(self.pair, 1, sockets).map(|times| times.p50_us)
        };
        let write = ours("ib_write_lat", 20_000, &[])?;
        let spinning = theirs(Sockets::SpinningUdp)?;
        let send = ours("ib_send_lat", 20_000, &[])?;
        let tcp = theirs(Sockets::BlockingTcp)?;
        let sleeping = ours("ib_send_lat", 5000, &["-e"])?;
        let udp = theirs(Sockets::BlockingUdp)?;
        (self.step)("rping".to_owned());
        let rping = measure_rping_us(self.pair, roce)?;
        let spins = "UDP, both ends spin";
        let goal = Goal::AtMost(1.3);
        let mut add = |what: &'static str, with, goal, figures| {
            measured.add(what, with, "us", goal, figures);
        };
        add("ib_write_lat", spins, Goal::None, (write, spinning));
        add("ib_send_lat", spins, Goal::None, (send, spinning));
        add(
            "ib_send_lat -e",
            "TCP, both ends sleep",
            goal,
            (sleeping, tcp),
        );
        add(
            "the same",
            "UDP, both ends sleep",
            Goal::None,
            (sleeping, udp),
        );
        add("rping", "TCP, both ends sleep", goal, (rping, tcp));
        Ok(())
    }
}

/// The sequential messages of an iteration of rping: the client's SEND, the request and the response of
/// a READ, the server's SEND; the client's SEND, a WRITE and its acknowledgement, the server's SEND.
const MESSAGES: u32 = 8;

/// How long rping's server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// rping, whose two ends sleep: the time of an iteration, divided by the number of its messages, in
/// microseconds. It is the difference of a long run and a short one, without the start.
fn measure_rping_us(pair: &VethPair, roce: &Path) -> Result<f64, String> {
    const ITERATIONS: [u32; 2] = [1, 3001];
    let [short, long] = ITERATIONS.map(|iterations| run_rping(pair, roce, iterations));
    let elapsed = long?.saturating_sub(short?);
    let messages = (ITERATIONS[1] - ITERATIONS[0]) * MESSAGES;
    Ok(elapsed.as_secs_f64() * 1e6 / f64::from(messages))
}

fn run_rping(pair: &VethPair, roce: &Path, iterations: u32) -> Result<Duration, String> {
    let iterations = iterations.to_string();
    let command = |host: usize, end: &str| {
        let mut command = pair.command(host, &roce.to_string_lossy());
        command.args(["run", "-q", "--", "rping", end, "-a", ADDRESSES[0]]);
        command.args(["-C", &iterations, "-S", "64"]);
        command.env("ROCE_DATAPATH", "udp");
        command
    };
    let _server = start(command(0, "-s").stdout(Stdio::null()))?;
    // The server does not say when it listens.
    let end = Instant::now() + PATIENCE;
    loop {
        let start = Instant::now();
        match output(command(1, "-c")) {
            Ok(_) => return Ok(start.elapsed()),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => {}
        }
    }
}

impl Measured {
    /// Adds the figures of a run to the row of this name, or adds the row.
    fn add(
        &mut self,
        what: impl Into<Cow<'static, str>>,
        with: &'static str,
        unit: &'static str,
        goal: Goal,
        figures: (f64, f64),
    ) {
        self.runs.add(what, with, unit, goal, figures);
    }

    fn add_processor(&mut self, program: &str, size: &str, ours: f64, tcp: &Tcp) {
        let goal = match (program, self.mtu) {
            (_, ..=1500) => Goal::AtMost(1.0),
            ("ib_send_bw -e", _) => Goal::AtMost(0.7),
            _ => Goal::None,
        };
        let what = format!("processor time of both ends, {program}, {size}");
        let theirs = tcp.cpu_seconds_per_gigabyte;
        self.add(what, "TCP", "s/GB", goal, (ours, theirs));
    }

    fn add_framework(
        &mut self,
        name: &str,
        figures: [Result<crate::frameworks::Figures, String>; 2],
    ) -> Result<(), String> {
        let [ours, theirs] = figures;
        let (ours, theirs) = (ours?, theirs?);
        let with = "the same over TCP";
        if let Some(latency) = ours.latency.zip(theirs.latency) {
            let what = format!("{name}, half a round trip of 8 bytes");
            self.add(what, with, "us", Goal::AtMost(1.0), latency);
        }
        for (size, rates) in [
            ("64 KiB", ours.medium.zip(theirs.medium)),
            ("1 MiB", ours.large.zip(theirs.large)),
        ] {
            if let Some((ours, theirs)) = rates {
                let what = format!("{name}, {size}");
                let rates = (ours / 1e9, theirs / 1e9);
                self.add(what, with, "Gb/s", Goal::AtLeast(1.3), rates);
            }
        }
        Ok(())
    }

    /// The kind of its marker lines in the page.
    pub fn marker(&self) -> String {
        format!("ordinary {} {}", self.part.name(), self.mtu)
    }

    /// The text of the page.
    pub fn markdown(&self, machine: &str) -> String {
        let network = format!("MTU {}", self.mtu);
        self.runs.markdown(machine, &network)
    }

    /// The figures of each run.
    pub fn json(&self) -> Value {
        let mut json = self.runs.json();
        json["part"] = json!(self.part.name());
        json["mtu"] = json!(self.mtu);
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Distance;

    fn measured() -> Measured {
        let mut measured = Measured {
            mtu: 1500,
            part: Part::Latency,
            runs: Runs {
                states: vec![Some(Distance(0.1)), None, Some(Distance(0.3))],
                rows: Vec::new(),
            },
        };
        for figures in [(40.0, 20.0), (60.0, 20.0)] {
            measured.add("rping", "TCP", "us", Goal::AtMost(1.3), figures);
            measured.add("rping", "UDP", "us", Goal::None, figures);
        }
        measured
    }

    #[test]
    fn a_row_takes_the_figures_of_all_runs() {
        let text = measured().markdown("a machine");
        assert!(text.contains("MTU 1500, 2 runs."), "{text}");
        assert!(
            text.contains(": 0.10 near, one processor, 0.30 far."),
            "{text}"
        );
        let row = "| rping | 50.00 us | 20.00 us (TCP) | **2.50** | at most 1.3 | **no** |\n";
        assert!(text.contains(row), "{text}");
        assert_eq!(text.matches("| rping |").count(), 2, "{text}");
    }

    #[test]
    fn json_has_each_run() {
        let json = measured().json();
        assert_eq!(json["states_us"], json!([0.1, null, 0.3]));
        assert_eq!(json["rows"][0]["runs"], json!([[40.0, 20.0], [60.0, 20.0]]));
        assert_eq!(json["rows"][0]["ratio"], 2.5);
    }

    #[test]
    fn the_page_has_a_place_for_each_part() {
        let page = include_str!("../../../docs/generated/benchmarks.md");
        for part in Part::value_variants() {
            let measured = Measured {
                part: *part,
                ..measured()
            };
            let [begin, end] =
                ["begin", "end"].map(|side| format!("<!-- {}: {side} -->\n", measured.marker()));
            assert!(page.contains(&begin) && page.contains(&end), "{begin}");
        }
    }
}
