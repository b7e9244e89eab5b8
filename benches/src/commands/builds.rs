//! Compares two builds of `roce` by turns.

use clap::{Parser, ValueEnum};
use roce_benches::command::{print, progress, step};
use roce_benches::page::machine;
use roce_benches::roce;
use roce_benches::roce::Amount;
use roce_benches::turns::{Ratio, Turns};
use roce_benches::veth::VethPair;
use std::path::{Path, PathBuf};

/// Compares two builds of `roce` in alternating runs: has a change made the datapath slower?
///
/// Needs root (it makes two network namespaces) and iproute2. In each turn, `roce perf --op write`
/// runs once from either build, over each datapath, with each length; the first of a turn is the
/// second of the next. Prints Markdown: the medians, the ratio of the means without their outer
/// fifths, and the interval that contains this ratio with a confidence of 95 %.
///
/// Single measurements of 8 bytes over AF_XDP can differ by a factor of two, so they need about 200
/// turns, which take two minutes for each length and datapath.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  builds --before ../before/target/fat-lto/roce
  builds --before /tmp/roce_before --after /tmp/roce_after --datapath xdp --size 8 --turns 200")]
pub(crate) struct Args {
    /// The `roce` command before the change
    #[arg(long, value_name = "FILE")]
    before: PathBuf,

    /// The `roce` command after the change, instead of building it
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,

    /// The datapaths to measure
    #[arg(long, value_enum, default_values_t = [Datapath::Udp, Datapath::Xdp])]
    datapath: Vec<Datapath>,

    /// The lengths of a WRITE, in bytes
    #[arg(long, value_name = "BYTES", default_values_t = [8, 65536])]
    size: Vec<usize>,

    /// Number of turns
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,

    /// Duration of each measurement, in milliseconds
    #[arg(long, default_value_t = 200)]
    ms: u64,

    /// The seed from which the samples of the intervals are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Datapath {
    /// UDP sockets
    Udp,
    /// AF_XDP
    Xdp,
}

impl Datapath {
    /// The value of `ROCE_DATAPATH`.
    fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Xdp => "xdp",
        }
    }
}

/// A measured quantity, with its turns.
struct Kind {
    datapath: &'static str,
    size: usize,
    turns: Turns,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let after = match &args.after {
        Some(path) => path.clone(),
        None => roce::build()?,
    };
    let mut kinds: Vec<Kind> = args
        .datapath
        .iter()
        .flat_map(|datapath| args.size.iter().map(move |size| (datapath.name(), *size)))
        .map(|(datapath, size)| Kind {
            datapath,
            size,
            turns: Turns::default(),
        })
        .collect();
    measure(args, &after, &mut kinds)?;
    print(table(args, &kinds))
}

fn measure(args: &Args, after: &Path, kinds: &mut [Kind]) -> Result<(), String> {
    let pair = VethPair::new(9000)?;
    let count = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
    let bar = progress(args.turns.saturating_mul(count));
    for turn in 0..args.turns {
        for kind in &mut *kinds {
            step(&bar, format!("{}, {} bytes", kind.datapath, kind.size));
            let rate = |program: &Path| {
                let amount = Amount {
                    ms: args.ms,
                    iterations: 100,
                };
                roce::measure_write_with(&pair, program, kind.datapath, kind.size, amount, &[])
                    .map(|figures| figures.bits_per_second)
            };
            // The build that is first in one turn is second in the next.
            let (before, after) = if turn % 2 == 0 {
                let before = rate(&args.before)?;
                (before, rate(after)?)
            } else {
                let after = rate(after)?;
                (rate(&args.before)?, after)
            };
            kind.turns.push(before, after);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn table(args: &Args, kinds: &[Kind]) -> String {
    let mut table = format!(
        "Machine: {}. {} turns of {} ms each, WRITEs over veth, MTU 9000; seed {}.\n\n\
         | datapath | bytes | before, median | after, median | ratio of medians | of trimmed means | 95 % interval |\n\
         |---|---|---|---|---|---|---|",
        machine(),
        args.turns,
        args.ms,
        args.seed
    );
    for kind in kinds {
        table.push('\n');
        table += &row(kind, args.seed);
    }
    table
}

fn row(kind: &Kind, seed: u64) -> String {
    let Kind {
        datapath,
        size,
        turns,
    } = kind;
    let (Some((before, after)), Some(Ratio { ratio, interval })) =
        (turns.medians(), turns.ratio(seed))
    else {
        return format!("| {datapath} | {size} | - | - | - | - | - |");
    };
    format!(
        "| {datapath} | {size} | {:.4} Gb/s | {:.4} Gb/s | **{:.3}** | {ratio:.3} | {:.3} to {:.3} |",
        before / 1e9,
        after / 1e9,
        after / before,
        interval.0,
        interval.1
    )
}
