//! `roce sim power-cut`: power cuts of hosts with durable memory, in virtual time.

use super::parallel::run_all;
use super::{COMMIT, draw_start};
use crate::error::Error;
use roce_sim::power_cut::{Outcome, run};
use roce_trust::output::{self, Stdout};
use serde::Serialize;
use std::io::{self, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

const EXAMPLES: &str = "Examples:
  roce sim power-cut                          1,000 seeds from a random one
  roce sim power-cut --seeds 1 --from 4711    one of them";

/// Arguments of `roce sim power-cut`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PowerCutArgs {
    /// Number of seeds to run, each with one to four power cuts
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,

    /// The first seed; by default drawn at random and printed
    #[arg(long, value_name = "K")]
    pub from: Option<u64>,

    /// Number of concurrent runs; by default the number of processors
    #[arg(long, value_name = "J")]
    pub jobs: Option<NonZero<usize>>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of all seeds.
#[derive(Debug, Default, Serialize)]
struct Report {
    commit: &'static str,
    from: u64,
    seeds: u64,
    power_cuts: u64,
    acknowledged: u64,
    under_way: u64,
    violations: Vec<Violation>,
}

#[derive(Debug, Serialize)]
struct Violation {
    seed: u64,
    what: String,
}

impl Report {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.power_cuts += outcome.cuts;
        self.acknowledged += outcome.acknowledged;
        self.under_way += outcome.under_way;
        let violation = outcome.violation.map(|what| Violation { seed, what });
        self.violations.extend(violation);
    }

    fn print(&self, json: bool) -> io::Result<()> {
        let mut out = Stdout::lock();
        if json {
            return writeln!(out, "{}", serde_json::to_string_pretty(self)?);
        }
        for Violation { seed, what } in &self.violations {
            writeln!(out, "seed {seed} at commit {COMMIT}: {what}")?;
            writeln!(out, "again: roce sim power-cut --seeds 1 --from {seed}\n")?;
        }
        writeln!(
            out,
            "{} seeds from {}, commit {}: {} power cuts, {} FLUSHes acknowledged, {} under way when the \
             power failed, {} violations",
            self.seeds,
            self.from,
            self.commit,
            self.power_cuts,
            self.acknowledged,
            self.under_way,
            self.violations.len()
        )
    }
}

/// Runs the seeds; the exit code is 1 if any of them lost something.
pub(super) fn run_command(args: &PowerCutArgs) -> Result<ExitCode, Error> {
    let from = match args.from {
        Some(from) => from,
        None => draw_start("power-cut ", args.seeds)?,
    };
    let report = Mutex::new(Report {
        commit: COMMIT,
        from,
        seeds: args.seeds,
        ..Report::default()
    });
    run_all(args.seeds, args.jobs, |number| {
        let seed = from.wrapping_add(number);
        let outcome = run(seed);
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.add(seed, outcome);
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.violations.sort_by_key(|violation| violation.seed);
    output::unless_reader_has_gone(report.print(args.json))?;
    Ok(match report.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}
