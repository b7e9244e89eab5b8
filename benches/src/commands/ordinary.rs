//! Measures what ordinary programs get.

use clap::{Parser, ValueEnum};
use roce_benches::command::{Comparing, print, progress};
use roce_benches::frameworks::{Built, MPI_SPEED};
use roce_benches::ordinary::{Part, Programs, measure};
use roce_benches::page::machine;
use roce_benches::{perftest, roce};
use std::path::PathBuf;

/// perftest, rping, UCX and Open MPI beside TCP, as users run them
///
/// Programs that post one request at a time, send short messages or sleep, in two network namespaces
/// that a cable joins, by turns with TCP at the same message size. Each run is labelled with the
/// machine's state: half a round trip between two threads over one cache line. Needs root, iproute2,
/// iperf3, sockperf, perftest, rdmacm-utils, ucx-utils, openmpi-bin and libopenmpi-dev. Prints
/// Markdown; with --write it replaces the figures in docs/generated/benchmarks.md, part by part.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// MTUs of the cable
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [9000, 1500])]
    mtu: Vec<usize>,

    /// The parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::value_variants().to_vec())]
    only: Vec<Part>,

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
    let mpi = match args.only.contains(&Part::OpenMpi) {
        true => Some(Built::compile("mpicc.openmpi", MPI_SPEED, &[])?),
        false => None,
    };
    let bare_ends = match args.only.contains(&Part::Long) {
        true => Some(roce::build_example("roce-benches", "bare_ends")?),
        false => None,
    };
    let programs = Programs {
        roce,
        mpi,
        bare_ends,
    };
    let done = measure_all(args, &programs);
    if let Some(mpi) = &programs.mpi {
        // If it can't be removed, a later run overwrites it.
        let _ = std::fs::remove_file(mpi);
    }
    done
}

fn measure_all(args: &Args, programs: &Programs) -> Result<(), String> {
    let parts = args.mtu.iter().flat_map(|mtu| {
        let with_mtu = |part: &Part| (*mtu, *part);
        args.only.iter().map(with_mtu)
    });
    let mut all = Vec::new();
    for part in parts {
        let bar = progress(args.comparing.runs * part.1.steps());
        let step = |what: String| {
            bar.set_message(what);
            bar.inc(1);
        };
        let measured = measure(programs, part, args.comparing.runs, &step)?;
        bar.finish_and_clear();
        let text = measured.markdown(&machine());
        args.comparing.write(&measured.marker(), &text)?;
        match args.json {
            true => all.push(measured.json()),
            false => print(format_args!("{}\n", text))?,
        }
    }
    match args.json {
        true => print(serde_json::Value::from(all)),
        false => Ok(()),
    }
}
