//! The performance between two processes of one host: over lanes, over UDP sockets, and over the kernel's TCP and
//! UDP, by turns.

use crate::frameworks::{Built, FRAMEWORKS, Figures, Framework, OTHERS, Transport};
use crate::ordinary::count;
use crate::output::output;
use crate::peers::{Sockets, run_iperf3_tcp_with_size, run_sockperf};
use crate::perftest::{self, Transfer};
use crate::report::{Comparison, Goal, Runs};
use crate::veth::{Lanes, VethPair};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A part of the measurements. Each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Half round trips of programs that spin, and of programs that sleep.
    Latency,
    /// Messages of 64 KiB and 1 MiB.
    Bandwidth,
    /// Processor time of programs that sleep, and of a poll that finds nothing.
    Processor,
    /// UCX's tag messages, and its puts.
    Ucx,
    /// libfabric's connected endpoints.
    Libfabric,
    /// Open MPI's messages, with two ranks and with four.
    OpenMpi,
    /// Other programs that can use TCP, such as MPICH, qperf, Mooncake and QEMU.
    Programs,
}

impl Part {
    /// Its name on the command line and in marker lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Processor => "processor",
            Self::Ucx => "ucx",
            Self::Libfabric => "libfabric",
            Self::OpenMpi => "open-mpi",
            Self::Programs => "programs",
        }
    }

    /// The number of programs that a run measures, if it is limited to frameworks with this in their names.
    pub fn steps(self, name: &str) -> u32 {
        match self {
            Self::Latency => 9,
            Self::Bandwidth => 10,
            Self::Processor => 11,
            _ => 3 * self.frameworks(name).count() as u32,
        }
    }

    /// The frameworks with this in their names that it measures.
    pub fn frameworks(self, name: &str) -> impl Iterator<Item = &'static Framework> {
        let (all, start): (&[_], _) = match self {
            Self::Ucx => (&FRAMEWORKS, "UCX"),
            Self::Libfabric => (&FRAMEWORKS, "libfabric"),
            Self::OpenMpi => (&FRAMEWORKS, "Open MPI"),
            Self::Programs => (&OTHERS, ""),
            Self::Latency | Self::Bandwidth | Self::Processor => (&[], ""),
        };
        let wanted = move |of: &&Framework| of.name.starts_with(start) && of.name.contains(name);
        all.iter().filter(wanted)
    }
}

/// The programs to run.
#[derive(Debug)]
pub struct Programs {
    /// The command `roce`.
    pub roce: PathBuf,
    /// The programs of the frameworks to measure.
    pub frameworks: Built,
    /// The program that polls an empty CQ, if processor time is to be measured.
    pub empty_polls: Option<PathBuf>,
}

/// The source of the program that polls an empty CQ.
pub const EMPTY_POLLS: &str = "benches/src/local/empty_polls.c";

/// The figures of a part.
#[derive(Debug)]
pub struct Measured {
    part: Part,
    runs: Runs,
}

/// Measures a part in `runs` runs, of its frameworks those with `name` in their names. Calls `step` before each
/// program.
///
/// # Errors
/// If a program fails, or its packets took another way.
pub fn measure(
    programs: &Programs,
    part: Part,
    name: &str,
    runs: u32,
    step: &dyn Fn(String),
) -> Result<Measured, String> {
    let mut measured = Measured {
        part,
        runs: Runs::default(),
    };
    let bench = Bench {
        by_lane: VethPair::on_one_host(Lanes::On)?,
        by_sockets: VethPair::on_one_host(Lanes::Off)?,
        programs,
        step,
    };
    let (placed, lacking): (Vec<_>, Vec<_>) = part
        .frameworks(name)
        .partition(|framework| framework.lacks().is_none());
    for _ in 0..runs {
        measured.runs.note_state();
        match part {
            Part::Latency => bench.latency(&mut measured.runs)?,
            Part::Bandwidth => bench.bandwidth(&mut measured.runs)?,
            Part::Processor => bench.processor(&mut measured.runs)?,
            _ => {
                for framework in &placed {
                    bench.framework(framework, &mut measured.runs)?;
                }
            }
        }
    }
    measured.runs.note_state();
    for framework in lacking {
        let file = framework.lacks().unwrap_or_default();
        let what = format!("{}: not measured, {file} is not there", framework.name);
        measured.runs.rows.push(Comparison::unmeasured(what, "TCP"));
    }
    Ok(measured)
}

/// Measures one run.
struct Bench<'a> {
    by_lane: VethPair,
    by_sockets: VethPair,
    programs: &'a Programs,
    step: &'a dyn Fn(String),
}

/// Round trips of programs that spin, and of programs that sleep.
const SPINNING: u32 = 20_000;
const SLEEPING: u32 = 5000;

/// The least bytes of loopback for a message and its acknowledgement: headers and 8 bytes.
const SHORT_MESSAGE_BYTES: u64 = 60;

const SIZES: [(usize, &str); 2] = [(64 << 10, "64 KiB"), (1 << 20, "1 MiB")];

impl Bench<'_> {
    /// Runs `program` over lanes and over sockets, and checks by the bytes of loopback that its packets
    /// took them. Over sockets they are at least `bytes`.
    fn both_ways<T>(
        &self,
        name: &str,
        bytes: u64,
        program: impl Fn(&VethPair) -> Result<T, String>,
    ) -> Result<[T; 2], String> {
        let run = |pair: &VethPair, by_lane: bool| {
            let way = if by_lane { "lane" } else { "sockets" };
            (self.step)(format!("{name}, {way}"));
            let before = pair.loopback_bytes()?;
            let result = program(pair)?;
            let carried = pair.loopback_bytes()?.saturating_sub(before);
            match by_lane == (carried < bytes / 2) {
                true => Ok(result),
                false => Err(format!(
                    "{name}, {way}: loopback carried {carried} bytes, of {bytes} in messages"
                )),
            }
        };
        Ok([run(&self.by_lane, true)?, run(&self.by_sockets, false)?])
    }

    fn half_round_trips(
        &self,
        program: &str,
        rounds: u32,
        options: &[&str],
    ) -> Result<[f64; 2], String> {
        let name = [&[program], options].concat().join(" ");
        let bytes = 2 * u64::from(rounds) * SHORT_MESSAGE_BYTES;
        self.both_ways(&name, bytes, |pair| {
            perftest::measure_latency(pair, &self.programs.roce, program, rounds, options)
        })
    }

    fn transfers(
        &self,
        program: &str,
        size: usize,
        options: &[&str],
    ) -> Result<[Transfer; 2], String> {
        let bytes = size * count(size);
        self.both_ways(&format!("{program} {size}"), bytes as u64, |pair| {
            let roce = &self.programs.roce;
            perftest::measure_transfer(pair, roce, program, size, count(size), options)
        })
    }

    fn latency(&self, runs: &mut Runs) -> Result<(), String> {
        let sockperf = |sockets| {
            (self.step)(format!("sockperf, {sockets:?}"));
            run_sockperf(&self.by_sockets, 1, sockets).map(|times| times.p50_us)
        };
        let write = self.half_round_trips("ib_write_lat", SPINNING, &[])?;
        let spinning = sockperf(Sockets::SpinningUdp)?;
        let send = self.half_round_trips("ib_send_lat", SPINNING, &[])?;
        let tcp = sockperf(Sockets::BlockingTcp)?;
        let sleeping = self.half_round_trips("ib_send_lat", SLEEPING, &["-e"])?;
        let udp = sockperf(Sockets::BlockingUdp)?;
        for (what, ours, theirs) in [
            (
                "ib_write_lat",
                write,
                &[("UDP, both ends spin", spinning)][..],
            ),
            ("ib_send_lat", send, &[("UDP, both ends spin", spinning)]),
            (
                "ib_send_lat -e",
                sleeping,
                &[("TCP, both ends sleep", tcp), ("UDP, both ends sleep", udp)],
            ),
        ] {
            let what = format!("{what}, 8 bytes");
            add(runs, &what, "us", ours, theirs);
        }
        Ok(())
    }

    fn bandwidth(&self, runs: &mut Runs) -> Result<(), String> {
        for (size, name) in SIZES {
            let write = self.transfers("ib_write_bw", size, &[])?;
            (self.step)(format!("iperf3 {size}"));
            let tcp = run_iperf3_tcp_with_size(&self.by_sockets, 1, size)?;
            let read = self.transfers("ib_read_bw", size, &[])?;
            for (program, ours) in [("ib_write_bw", write), ("ib_read_bw", read)] {
                let ours = ours.map(|transfer| transfer.bits_per_second / 1e9);
                let theirs = [("TCP, one stream", tcp.bits_per_second / 1e9)];
                add(runs, &format!("{program}, {name}"), "Gb/s", ours, &theirs);
            }
        }
        Ok(())
    }

    fn processor(&self, runs: &mut Runs) -> Result<(), String> {
        let (size, name) = SIZES[0];
        (self.step)(format!("iperf3 {size}"));
        let tcp = run_iperf3_tcp_with_size(&self.by_sockets, 1, size)?;
        // A WRITE wakes nobody, so perftest has no events for it.
        let programs: [(_, &[_]); 2] = [("ib_write_bw", &[]), ("ib_send_bw", &["-e"])];
        for (program, options) in programs {
            let [by_lane, by_sockets] = self.transfers(program, size, options)?;
            let seconds = |pair: &VethPair, transfer: &Transfer| {
                (self.step)(format!("{program} {size}, few messages"));
                let roce = &self.programs.roce;
                let amount = (size, count(size));
                perftest::measure_cpu_per_gigabyte(pair, roce, program, amount, options, transfer)
            };
            let ours = [
                seconds(&self.by_lane, &by_lane)?,
                seconds(&self.by_sockets, &by_sockets)?,
            ];
            let program = [&[program], options].concat().join(" ");
            let what = format!("processor time of both ends, {program}, {name}");
            let theirs = [("TCP, one stream", tcp.cpu_seconds_per_gigabyte)];
            add(runs, &what, "s/GB", ours, &theirs);
        }
        let polls = [
            self.empty_poll_ns(&self.by_lane)?,
            self.empty_poll_ns(&self.by_sockets)?,
        ];
        add(runs, "ibv_poll_cq that finds nothing", "ns", polls, &[]);
        Ok(())
    }

    fn empty_poll_ns(&self, pair: &VethPair) -> Result<f64, String> {
        (self.step)("empty polls".to_owned());
        let program = self.programs.empty_polls.as_deref();
        let program = program.ok_or("no program that polls an empty CQ")?;
        let mut command = pair.command(0, &self.programs.roce.to_string_lossy());
        command.args(["run", "-q", "--"]).arg(program);
        command
            .args([pair.device(), "1"])
            .env("ROCE_DATAPATH", "udp");
        let text = output(command)?;
        let figure = text.trim().parse();
        figure.map_err(|_| format!("{EMPTY_POLLS} gave no figure:\n{text}"))
    }

    fn framework(&self, framework: &Framework, runs: &mut Runs) -> Result<(), String> {
        let name = framework.name;
        let run = |over| {
            (self.step)(format!("{name}, {over:?}"));
            framework.run(&self.programs.frameworks, over)
        };
        let ours = [run(Transport::Lane)?, run(Transport::Sockets)?];
        let tcp = run(Transport::Tcp)?;
        let mut add_figure = |what: &str, unit, figure: fn(&Figures) -> Option<f64>| {
            let [lane, sockets] = [figure(&ours[0]), figure(&ours[1])];
            if let (Some(lane), Some(sockets), Some(tcp)) = (lane, sockets, figure(&tcp)) {
                let theirs = [("the same over TCP", tcp)];
                let ours = [lane, sockets];
                add(runs, &format!("{name}, {what}"), unit, ours, &theirs);
            }
        };
        add_figure(framework.latency, "us", |of| of.latency);
        // Four ranks on two processors: what counts is whether they leave them to each other.
        if !name.contains("four ranks") {
            add_figure("64 KiB", "Gb/s", |of| of.medium.map(|rate| rate / 1e9));
            add_figure("1 MiB", "Gb/s", |of| of.large.map(|rate| rate / 1e9));
        }
        add_figure("its memory", "Gb/s", |of| of.memory.map(|rate| rate / 1e9));
        add_figure("GET of 1 client", "1000/s", |of| {
            of.requests[0].map(|rate| rate / 1e3)
        });
        add_figure("GET of 20 clients", "1000/s", |of| {
            of.requests[1].map(|rate| rate / 1e3)
        });
        Ok(())
    }
}

/// Adds rows that compare our figure over lanes with that over sockets, and with those of others.
fn add(
    runs: &mut Runs,
    what: &str,
    unit: &'static str,
    [lane, sockets]: [f64; 2],
    theirs: &[(&'static str, f64)],
) {
    let with_sockets = [("this stack, sockets", sockets)];
    for (with, figure) in with_sockets.iter().chain(theirs) {
        runs.add(what.to_owned(), with, unit, Goal::None, (lane, *figure));
    }
}

impl Measured {
    /// The kind of its marker lines in the page.
    pub fn marker(&self) -> String {
        format!("local {}", self.part.name())
    }

    /// The text of the page.
    pub fn markdown(&self, machine: &str) -> String {
        self.runs.markdown(machine, "Loopback")
    }

    /// The figures of each run.
    pub fn json(&self) -> Value {
        let mut json = self.runs.json();
        json["part"] = json!(self.part.name());
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_each_part() {
        let page = include_str!("../../../docs/generated/benchmarks.md");
        for part in Part::value_variants() {
            let measured = Measured {
                part: *part,
                runs: Runs::default(),
            };
            let [begin, end] =
                ["begin", "end"].map(|side| format!("<!-- {}: {side} -->\n", measured.marker()));
            assert!(page.contains(&begin) && page.contains(&end), "{begin}");
        }
    }

    #[test]
    fn each_framework_belongs_to_a_part() {
        let parts = [Part::Ucx, Part::Libfabric, Part::OpenMpi];
        let all = parts.into_iter().flat_map(|part| part.frameworks(""));
        assert_eq!(all.count(), FRAMEWORKS.len());
    }

    #[test]
    fn a_figure_is_compared_with_sockets_and_with_others() {
        let mut runs = Runs::default();
        add(&mut runs, "a program", "us", [1.0, 4.0], &[("TCP", 8.0)]);
        let text = runs.markdown("a machine", "Loopback");
        for row in [
            "| a program | 1.00 us | 4.00 us (this stack, sockets) | **0.25** |",
            "| a program | 1.00 us | 8.00 us (TCP) | **0.12** |",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }
}
