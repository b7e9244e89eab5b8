//! `roce sim dcqcn`: experiments with congestion control, in virtual time.

mod page;
mod plot;
mod report;

use crate::error::Error;
use crate::progress::bar;
use crate::sim::parallel::run_all;
use report::Report;
use roce_sim::congestion::{Algorithm, Loss, Outcome, Scenario, catalogue, run};
use roce_trust::output;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const EXAMPLES: &str = "Examples:
  roce sim dcqcn                           all experiments: a minute or two
  roce sim dcqcn --scenario incast-16      one, with each algorithm and network
  roce sim dcqcn --scenario incast-2 --algorithm dcqcn --network pfc --json
  roce sim dcqcn --write docs/generated    the plots, data and tables of docs/generated/congestion.md";

/// Arguments of `roce sim dcqcn`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DcqcnArgs {
    /// Run this experiment only; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = scenario_name)]
    pub scenario: Vec<String>,

    /// Use this congestion control algorithm only; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    pub algorithm: Vec<Algorithm>,

    /// Only networks with flow control (pfc), or only those whose short queues drop (drop)
    #[arg(long, value_name = "KIND", value_parser = loss)]
    pub network: Option<Loss>,

    /// Seed of all random numbers
    #[arg(long, value_name = "X", default_value_t = 1)]
    pub seed: u64,

    /// Number of concurrent runs; by default the number of processors
    #[arg(long, value_name = "J")]
    pub jobs: Option<NonZero<usize>>,

    /// List the experiments
    #[arg(long)]
    pub list: bool,

    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,

    /// Write DIR/congestion/*.svg and *.csv, and the tables of DIR/congestion.md
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "algorithm", "network", "list"])]
    pub write: Option<PathBuf>,
}

/// Runs experiments.
pub fn run_command(args: &DcqcnArgs) -> Result<ExitCode, Error> {
    if args.list {
        output::unless_reader_has_gone(report::list(&catalogue(args.seed)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let begin = Instant::now();
    let outcomes = all(&scenarios(args), args)?;
    let report = Report::new(outcomes, args.seed, begin.elapsed());
    if let Some(dir) = &args.write {
        page::write(dir, &report)?;
    }
    output::unless_reader_has_gone(report.print(args.json))?;
    Ok(ExitCode::SUCCESS)
}

fn scenarios(args: &DcqcnArgs) -> Vec<Scenario> {
    let mut chosen = Vec::new();
    for scenario in catalogue(args.seed) {
        if !args.scenario.is_empty() && !args.scenario.iter().any(|name| name == scenario.name) {
            continue;
        }
        for loss in Loss::ALL {
            for algorithm in Algorithm::ALL {
                let wanted = args.algorithm.is_empty() || args.algorithm.contains(&algorithm);
                if wanted && args.network.is_none_or(|only| only == loss) {
                    chosen.push(scenario.with(algorithm, loss));
                }
            }
        }
    }
    chosen
}

/// Runs all experiments, several at a time. Outcomes are in the order of the scenarios.
fn all(scenarios: &[Scenario], args: &DcqcnArgs) -> Result<Vec<Outcome>, Error> {
    let microseconds = |time: core::time::Duration| time.as_micros() as u64;
    let length = scenarios
        .iter()
        .map(|scenario| microseconds(scenario.duration));
    let bar = bar(
        length.sum(),
        "{elapsed} [{wide_bar}] {percent} %, {eta} left",
    );
    let results = Mutex::new(vec![None; scenarios.len()]);
    run_all(scenarios.len() as u64, args.jobs, |number| {
        let number = number as usize;
        let mut progress = |time| bar.inc(microseconds(time));
        let result = run(&scenarios[number], args.seed, &mut progress);
        results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
    });
    bar.finish_and_clear();
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let outcomes: Result<_, _> = results.into_iter().flatten().collect();
    outcomes.map_err(|error| Error::new(format_args!("an experiment failed: {error}")))
}

fn scenario_name(name: &str) -> Result<String, String> {
    let names: Vec<&str> = catalogue(0).iter().map(|scenario| scenario.name).collect();
    if names.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("there are {}", names.join(", ")))
    }
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let named = Algorithm::ALL.into_iter().find(|one| one.name() == name);
    named.ok_or_else(|| {
        let names = Algorithm::ALL.map(Algorithm::name);
        format!("there are {}", names.join(", "))
    })
}

fn loss(name: &str) -> Result<Loss, String> {
    let named = Loss::ALL.into_iter().find(|one| one.name() == name);
    named.ok_or_else(|| "there are pfc and drop".to_owned())
}
