//! `roce sim`: swarms of simulated fabrics, checked by an oracle; experiments with congestion control;
//! and power cuts.

pub mod dcqcn;
mod parallel;
pub mod power_cut;
mod report;

use crate::error::Error;
use crate::progress::bar;
use parallel::run_all;
use report::{Failure, Report};
use roce_sim::swarm::{Outcome, Plan, Summary, run, run_printing, shrink};
use roce_trust::output::{self, say};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The commit that this program was built from.
pub const COMMIT: &str = env!("ROCE_COMMIT");

/// Arguments of `roce sim`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    /// An experiment to run instead of a swarm
    #[command(subcommand)]
    pub experiment: Option<Experiment>,

    /// Number of seeds to run, one fabric for each
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,

    /// The first seed; by default drawn at random and printed
    #[arg(long, value_name = "K")]
    pub from: Option<u64>,

    /// Number of concurrent runs; by default the number of processors
    #[arg(long, value_name = "J")]
    pub jobs: Option<NonZero<usize>>,

    /// Run this seed only; if it fails, shrink it and show the smallest plan that fails
    #[arg(long, value_name = "X", conflicts_with_all = ["seeds", "from", "jobs"])]
    pub seed: Option<u64>,

    /// With --seed: show every packet on stderr
    #[arg(long, requires = "seed")]
    pub trace: bool,

    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// Subcommands that run instead of a swarm.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Experiment {
    /// Compare congestion control algorithms on links that flows share
    Dcqcn(dcqcn::DcqcnArgs),
    /// Cut the power of hosts with durable memory, and look at their disks
    PowerCut(power_cut::PowerCutArgs),
}

/// The most failing seeds to shrink; the others are only listed.
const MAX_SHRUNK: usize = 3;

/// The most runs to spend on shrinking a seed.
const SHRINK_RUNS: usize = 1000;

/// Runs seeds; the exit code is 1 if any of them failed.
///
/// # Errors
/// If the first seed can't be drawn, stdout can't be written, or an experiment fails.
pub fn run_command(args: &SimArgs) -> Result<ExitCode, Error> {
    match &args.experiment {
        Some(Experiment::Dcqcn(args)) => return dcqcn::run_command(args),
        Some(Experiment::PowerCut(args)) => return power_cut::run_command(args),
        None => {}
    }
    let from = match (args.seed, args.from) {
        (Some(_), _) => 0,
        (None, Some(from)) => from,
        (None, None) => draw_start("", args.seeds)?,
    };
    // A panic of the stack is reported with its seed like any other finding.
    std::panic::set_hook(Box::new(|_| {}));
    let report = match args.seed {
        Some(seed) => one(seed, args.trace),
        None => many(args, from),
    };
    output::unless_reader_has_gone(report.print(args.json))?;
    Ok(match report.summary.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    })
}

/// Draws a random first seed of an experiment, whose name ends with a space. Prints it at once, so that an interrupted run can be repeated.
fn draw_start(experiment: &str, seeds: u64) -> Result<u64, Error> {
    let failed = |error| {
        Error::new(format_args!(
            "can't draw the first seed at random: {error}; name one with --from"
        ))
    };
    // Leaves room for the seeds that follow.
    let from = getrandom::u64().map_err(failed)? >> 1;
    let again = format!("roce sim {experiment}--seeds {seeds} --from {from}");
    say(
        "roce sim",
        format_args!("seeds from {from}; again: {again}"),
    );
    Ok(from)
}

fn one(seed: u64, trace: bool) -> Report {
    let begin = Instant::now();
    let plan = Plan::draw(seed);
    let outcome = if trace {
        run_printing(&plan)
    } else {
        run(&plan)
    };
    let mut summary = Summary::default();
    summary.add(&outcome);
    let mut failed = Vec::new();
    failed.extend(failure(seed, &outcome));
    Report::new(summary, seed, failed, begin.elapsed())
}

fn many(args: &SimArgs, from: u64) -> Report {
    let begin = Instant::now();
    let bar = bar(args.seeds, "{pos}/{len} [{wide_bar}] {per_sec}, {eta} left");
    let all = Mutex::new((Summary::default(), Vec::new()));
    run_all(args.seeds, args.jobs, |number| {
        let seed = from.wrapping_add(number);
        let outcome = run(&Plan::draw(seed));
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.add(&outcome);
        if outcome.violation.is_some() {
            all.1.push((seed, outcome));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let elapsed = begin.elapsed();
    let (summary, mut failed) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|(seed, _)| *seed);
    let cut = failed.iter().take(MAX_SHRUNK);
    let mut failures: Vec<Failure> = cut.filter_map(|(seed, o)| failure(*seed, o)).collect();
    let named = failed.iter().skip(MAX_SHRUNK);
    failures.extend(named.filter_map(|(seed, o)| Failure::of(*seed, o)));
    Report::new(summary, from, failures, elapsed)
}

/// The report on a failing seed.
fn failure(seed: u64, outcome: &Outcome) -> Option<Failure> {
    let mut failure = Failure::of(seed, outcome)?;
    if let Some(shrunk) = shrink(&Plan::draw(seed), SHRINK_RUNS) {
        failure.smallest = Some(format!("{:#?}", shrunk.plan));
        failure.smallest_violation = Some(shrunk.violation.to_string());
    }
    Some(failure)
}
