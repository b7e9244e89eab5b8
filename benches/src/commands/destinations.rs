//! Measures many QPs to many destinations.

use clap::Parser;
use roce_benches::command::{Comparing, progress, step};
use roce_benches::scale::destinations::compare;

/// 10,000 QPs to 1,000 destinations over UDP sockets: sockets for flows, beside port 4791 alone
///
/// Both ends run in one thread, over loopback. With --write it replaces the figures in
/// docs/generated/benchmarks.md.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    comparing: Comparing,

    /// Messages in each measurement
    #[arg(long, default_value_t = 60_000)]
    messages: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let bar = progress(args.comparing.runs * 2);
    let measured = compare(args.messages, args.comparing.runs, &|what| step(&bar, what))?;
    bar.finish_and_clear();
    args.comparing.publish("destinations", &[measured])
}
