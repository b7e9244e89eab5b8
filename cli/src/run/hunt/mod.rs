//! `roce run --hunt`: runs a test many times, each time with other faults, and shrinks the faults
//! of the first run that fails.

mod again;
mod draw;
mod leftovers;
mod output;
mod part;
mod plan;
mod report;
mod runner;
mod scout;
mod shrink;
mod shrinker;

pub use plan::Category;
pub use report::HuntFormat;

use super::prepared::Prepared;
use super::{NO_TRAFFIC, RunArgs, summary, tally};
use crate::error::Error;
use crate::progress::bar;
use crate::run::settings::name_of;
use again::Again;
use clap::Args;
use plan::{MILD, Plan};
use report::{Failure, Report, RunReport};
use roce_trust::environment;
use roce_trust::output::say;
use roce_verbs::Device;
use roce_verbs::settings::DurationText;
use runner::{Outcome, Run, Runner};
use scout::Scouted;
use shrinker::Shrinker;
use std::num::NonZero;
use std::process::ExitCode;
use std::time::Duration;

/// The shortest time that counts as a hang if `--hunt-limit` is not given.
const SHORTEST_LIMIT: Duration = Duration::from_secs(10);

/// The time that counts as a hang, compared with that of the run without faults.
const LIMIT_FACTOR: u32 = 10;

/// The longest that the run without faults may take if `--hunt-limit` is not given.
const LONGEST: Duration = Duration::from_secs(600);

/// The options of a hunt.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Hunting for faults that a test does not survive")]
pub struct HuntArgs {
    /// Run the test N times, each time with other mild faults, and report the runs that fail,
    /// crash or hang. Exit code 1 if there are any
    #[arg(
        long = "hunt",
        value_name = "N",
        value_parser = runs,
        conflicts_with_all = ["faults", "summary", "require_traffic"]
    )]
    pub runs: Option<NonZero<u32>>,

    /// The kinds of faults, separated by commas [default: network,late,slow]
    #[arg(
        long = "hunt-with",
        value_name = "KINDS",
        value_delimiter = ',',
        requires = "runs"
    )]
    pub with: Vec<Category>,

    /// The seed from which the faults are drawn [default: drawn at random, and printed]
    #[arg(long = "hunt-seed", value_name = "SEED", requires = "runs")]
    pub seed: Option<u64>,

    /// The time after which a run counts as hung, such as 30s [default: ten times that of a run
    /// without faults, and at least 10s]
    #[arg(
        long = "hunt-limit",
        value_name = "TIME",
        value_parser = limit,
        requires = "runs"
    )]
    pub limit: Option<DurationText>,

    /// Exit codes other than 0 with which the test reports an error correctly, separated by commas
    #[arg(
        long = "hunt-accept",
        value_name = "CODES",
        value_delimiter = ',',
        requires = "runs"
    )]
    pub accept: Vec<u8>,

    /// The form of the report on stdout
    #[arg(
        long = "hunt-format",
        value_name = "FORM",
        default_value = "text",
        requires = "runs"
    )]
    pub format: HuntFormat,
}

fn runs(text: &str) -> Result<NonZero<u32>, String> {
    text.parse()
        .map_err(|_| format!("it must be the number of runs, 1 to {}", u32::MAX))
}

fn limit(text: &str) -> Result<DurationText, String> {
    let limit: DurationText = text.parse().map_err(|error| format!("{error}"))?;
    match limit.0.is_zero() {
        true => Err("a run takes some time: give at least 1ms".to_owned()),
        false => Ok(limit),
    }
}

/// Runs the test `runs` times. The exit code is 1 if a run failed.
///
/// # Errors
/// If an argument is wrong, the test can't be started, or stdout can't be written.
pub(super) fn run(args: &RunArgs, runs: NonZero<u32>) -> Result<ExitCode, Error> {
    if environment::variable("ROCE_FAULTS").is_some() {
        return Err(Error::usage(
            "ROCE_FAULTS is set, but --hunt draws the faults of each run: unset it",
        ));
    }
    let seed = match args.hunt.seed {
        Some(seed) => seed,
        // A short one is easier to copy.
        None => u64::from(getrandom::u32().map_err(|error| {
            Error::system("draw a seed at random (give one with --hunt-seed)", error)
        })?),
    };
    let prepared = Prepared::new(args)?;
    let runner = Runner::new(&prepared)?;
    let hunt = Hunt {
        args,
        runs: runs.get(),
        seed,
        again: Again::of(args),
        with: match args.hunt.with.as_slice() {
            [] => MILD.to_vec(),
            with => with.to_vec(),
        },
        runner,
        prepared: &prepared,
    };
    hunt.run()
}

struct Hunt<'a> {
    args: &'a RunArgs,
    runs: u32,
    seed: u64,
    with: Vec<Category>,
    again: Again,
    runner: Runner<'a>,
    prepared: &'a Prepared,
}

impl Hunt<'_> {
    fn run(&self) -> Result<ExitCode, Error> {
        let again = self.again.hunt(&self.args.hunt, self.runs, self.seed);
        self.tell(&format!("seed {}; again: {again}", self.seed));
        let (undisturbed, mut code) = self.undisturbed()?;
        let time = undisturbed.time;
        let default = SHORTEST_LIMIT.max(LIMIT_FACTOR * time);
        let mut report = Report {
            test: self.again.test.clone(),
            seed: self.seed,
            with: self.with.iter().map(name_of).collect(),
            again,
            undisturbed,
            limit: self.args.hunt.limit.map_or(default, |limit| limit.0),
            runs: Vec::new(),
            smallest: None,
        };
        if report.undisturbed.failure.is_none() {
            self.tell(&format!(
                "it passes without faults, in {:.2} s; a run of more than {:.1} s counts as hung",
                time.as_secs_f64(),
                report.limit.as_secs_f64()
            ));
            self.hunt(&mut report)?;
            code = u8::from(report.failures() > 0);
        }
        let printed = report.print(self.args.hunt.format);
        printed?;
        Ok(ExitCode::from(code))
    }

    /// The run without faults, and the exit code if it is the last one.
    fn undisturbed(&self) -> Result<(RunReport, u8), Error> {
        let tally = tally()?;
        self.prepared.let_programs_open_descriptors()?;
        let limit = self.args.hunt.limit.map_or(LONGEST, |limit| limit.0);
        let run = self.runner.run(&[tally.variable()], limit)?;
        let name = self.prepared.name().to_string_lossy();
        let totals = tally.totals();
        let (what, code) = if run.outcome != Outcome::Code(0) {
            let what = format!("the test must pass without faults, but: {}", run.outcome);
            (Some(what), 1)
        } else if totals.devices_opened == 0 {
            let why = "so no fault can strike it";
            let devices = self.args.settings.devices()?;
            let devices: Vec<String> = devices.iter().map(Device::name).collect();
            let nothing = summary::nothing_opened(&name, &totals, &devices);
            let what = format!("{nothing}, {why}");
            (Some(what), NO_TRAFFIC)
        } else {
            (None, 0)
        };
        if let Some(what) = &what {
            self.tell(what);
        }
        Ok((self.reported(run, "", what), code))
    }

    /// The test's calls and completions, from a run with faults that change nothing and are reported.
    fn scout(&self, limit: Duration) -> Result<Scouted, Error> {
        let tally = tally()?;
        let reporting = ("ROCE_FAULTS", scout::reporting().to_string().into());
        let run = self.runner.run(&[tally.variable(), reporting], limit)?;
        if let Some(what) = self.failure(run.outcome) {
            self.tell(&format!(
                "it depends on timing: with faults that change nothing but are reported, {what}"
            ));
        }
        let test = Scouted::of(&run.stderr, tally.totals().tx_bytes);
        if test == Scouted::default() {
            self.tell(
                "its calls and completions are not known: it meets faults of the network only",
            );
        }
        Ok(test)
    }

    /// All runs, and the shrinking of the first that fails.
    fn hunt(&self, report: &mut Report) -> Result<(), Error> {
        let test = self.scout(report.limit)?;
        let bar = bar(
            self.runs.into(),
            "{pos}/{len} [{wide_bar}] {msg}, {eta} left",
        );
        let mut failing = None;
        let mut failures = 0;
        for number in 1..=self.runs {
            bar.set_message(format!("{failures} failed"));
            let plan = Plan::draw(self.seed, number, &self.with, &test);
            let faults = plan.to_string();
            let run = self.run_with(&faults, report.limit)?;
            let failed = self.failure(run.outcome);
            failures += u32::from(failed.is_some());
            if let (Some(what), None) = (&failed, &failing) {
                let first = format!("run {number} is the first that fails: {what}; {faults}");
                bar.suspend(|| self.tell(&first));
                failing = Some(plan);
            }
            report.runs.push(self.reported(run, &faults, failed));
            bar.inc(1);
        }
        bar.finish_and_clear();
        if let Some(plan) = failing {
            let bar = crate::progress::bar(0, "shrinking, run {pos}: {msg}");
            let fails = |faults: &str| {
                bar.set_message(faults.to_owned());
                bar.inc(1);
                let run = self.run_with(faults, report.limit)?;
                Ok(self.failure(run.outcome).is_some())
            };
            let shrinker = Shrinker::new(fails, report.limit);
            let smallest = shrinker.shrink(&plan, |faults| self.again.run(faults))?;
            bar.finish_and_clear();
            report.smallest = Some(smallest);
        }
        Ok(())
    }

    fn run_with(&self, faults: &str, limit: Duration) -> Result<Run, Error> {
        let variables = [("ROCE_FAULTS", faults.into())];
        self.runner.run(&variables, limit)
    }

    /// Why a run has failed, if it has.
    fn failure(&self, outcome: Outcome) -> Option<String> {
        match outcome {
            Outcome::Code(code) if code == 0 || self.args.hunt.accept.contains(&code) => None,
            other => Some(other.to_string()),
        }
    }

    fn reported(&self, run: Run, faults: &str, what: Option<String>) -> RunReport {
        RunReport {
            outcome: run.outcome,
            time: run.time,
            faults: faults.to_owned(),
            failure: what.map(|what| Failure {
                what,
                again: self.again.run(faults),
                stdout: run.stdout,
                stderr: run.stderr,
            }),
        }
    }

    /// Reports progress.
    fn tell(&self, text: &str) {
        if !self.args.quiet {
            say("roce run", text);
        }
    }
}
