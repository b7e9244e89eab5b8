//! Measures what programs on one host get from lanes.

use clap::{Parser, ValueEnum};
use roce_benches::command::{Comparing, Selecting, print, progress};
use roce_benches::frameworks::Built;
use roce_benches::local::{EMPTY_POLLS, Part, Programs, measure};
use roce_benches::page::machine;
use roce_benches::{perftest, roce};
use std::path::PathBuf;

/// Two processes on one host: over lanes, over UDP sockets, and over the kernel's TCP and UDP
///
/// perftest, UCX, libfabric, Open MPI and others on loopback in network namespaces of their own, by turns.
/// Each run is labelled with the machine's state, as by `ordinary`. Needs root, iproute2, nftables, iperf3,
/// sockperf, perftest, libibverbs-dev, ucx-utils, libfabric-bin, openmpi-bin and libopenmpi-dev; the part
/// `programs` needs mpich, libmpich-dev, qperf, tgt, libiscsi-bin, python3, and measures those programs that are in the
/// folder ROCE_PROGRAMS_DIR (docs/programs.md). Prints Markdown; with --write it replaces the figures in
/// docs/generated/benchmarks.md, part by part.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// The parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::value_variants().to_vec())]
    only: Vec<Part>,

    #[command(flatten)]
    selecting: Selecting,

    /// Print JSON, with the figures of each run
    #[arg(long)]
    json: bool,

    /// The `roce` command to measure, with the library beside it, instead of building both
    #[arg(long, value_name = "FILE")]
    roce: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let roce = match &args.roce {
        Some(path) => path.clone(),
        None => {
            perftest::build_library()?;
            roce::build()?
        }
    };
    let wants = |parts: &[Part]| args.only.iter().any(|part| parts.contains(part));
    let frameworks = args.only.iter();
    let frameworks = frameworks.flat_map(|part| part.frameworks(&args.selecting.program));
    let frameworks = Built::find_beside(&roce, frameworks)?;
    let empty_polls = match wants(&[Part::Processor]) {
        true => Some(Built::compile("cc", EMPTY_POLLS, &["-libverbs"])?),
        false => None,
    };
    let programs = Programs {
        roce,
        frameworks,
        empty_polls,
    };
    let done = measure_all(args, &programs);
    for program in programs.frameworks.programs().chain(&programs.empty_polls) {
        // If it can't be removed, a later run overwrites it.
        let _ = std::fs::remove_file(program);
    }
    done
}

fn measure_all(args: &Args, programs: &Programs) -> Result<(), String> {
    let mut all = Vec::new();
    for part in &args.only {
        let bar = progress(args.comparing.runs * part.steps(&args.selecting.program));
        let step = |what: String| {
            bar.set_message(what);
            bar.inc(1);
        };
        let measured = measure(
            programs,
            *part,
            &args.selecting.program,
            args.comparing.runs,
            &step,
        )?;
        bar.finish_and_clear();
        let text = measured.markdown(&machine());
        args.comparing.write(&measured.marker(), &text)?;
        match args.json {
            true => all.push(measured.json()),
            false => print(format_args!("{text}\n"))?,
        }
    }
    match args.json {
        true => print(serde_json::Value::from(all)),
        false => Ok(()),
    }
}
