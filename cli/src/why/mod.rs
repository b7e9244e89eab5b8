//! `roce why`: why requests failed.
//!
//! With a program, runs it as `roce run` does, and explains at the end each QP that failed. With a
//! number, explains the code that a failed completion carries in `vendor_err`.

mod codes;
mod explainer;
mod losses;
mod process;
mod report;
mod watcher;

use crate::error::Error;
use crate::run::hunt::HuntArgs;
use crate::run::{self, Namespace, Preload, RunArgs, Settings};
use crate::words::parse_number;
use clap::Args;
use codes::Meaning;
use explainer::Explainer;
use process::Trouble;
use report::Report;
use roce_trust::output;
use roce_verbs::why::kind_of_code;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain why requests of a program failed, or what a code in vendor_err means
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "roce why [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       roce why CODE\n       roce why --pid PID",
    after_help = "\
Examples:
  roce why ib_write_bw -d roce_eth0 -x 1 server    runs it, and explains each QP that failed
  roce why --faults loss=100% -- ./client server   what it looks like if nothing arrives
  roce why --packets why.pcapng -- ./server        the last packets of each, for tshark or roce decode
  roce why --pid 4711                              the failed QPs of a running process, and what it waits for
  roce why --json ./server 2> report.jsonl         for scripts; stderr has the program's own lines, too
  roce why 0x211                                   the meaning of vendor_err 0x211 (529)
  roce why list                                    all codes

The program runs as with `roce run`, and the exit code is its own. Only the first failure of each
QP is explained, because others follow from it: requests that are flushed, for instance. What the
peer found is in the peer's own report, so run both ends with `roce why`.

Programs that are started by others: ROCE_WHY=stderr, or ROCE_WHY=FILE."
)]
pub struct WhyArgs {
    /// The settings for the program
    #[command(flatten)]
    pub settings: Settings,

    /// Explain the failed QPs of this running process, of the same user, and what it waits for
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Write the last packets of each QP that fails to the end of this pcapng file, with the
    /// explanation as a comment (ROCE_WHY_PCAP)
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pub packets: Option<PathBuf>,

    /// Print JSON: one object in each line for a program, an array otherwise
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments; or a code, in hexadecimal with 0x, or decimal
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required_unless_present = "pid"
    )]
    pub command: Vec<OsString>,
}

/// Runs the program and explains its failures, or explains a code.
pub fn run(args: &WhyArgs) -> Result<ExitCode, Error> {
    if let Some(pid) = args.pid {
        let troubles = process::troubles(pid)?;
        return print(args, &troubles, || match troubles.as_slice() {
            [] => format!("no QP of process {pid} has failed\n"),
            troubles => troubles.iter().map(Trouble::text).collect(),
        });
    }
    if let [only] = args.command.as_slice()
        && let Some(only) = only.to_str()
    {
        if only == "list" {
            let all = Meaning::all();
            return print(args, &all, || all.iter().map(Meaning::row).collect());
        }
        if let Some(code) = parse_number(only) {
            let Some(kind) = kind_of_code(code) else {
                return Err(Error::usage(format_args!(
                    "no failure has the code {only}; `roce why list` prints all"
                )));
            };
            let meaning = Meaning::of(code, kind);
            return print(args, &[&meaning], || meaning.text());
        }
    }
    explain_program(args)
}

/// Prints objects as a JSON array, or the text.
fn print<T: Serialize>(
    args: &WhyArgs,
    objects: &[T],
    text: impl FnOnce() -> String,
) -> Result<ExitCode, Error> {
    let text = match args.json {
        true => serde_json::to_string_pretty(objects)? + "\n",
        false => text(),
    };
    output::print(format_args!("{text}"))?;
    Ok(ExitCode::SUCCESS)
}

fn explain_program(args: &WhyArgs) -> Result<ExitCode, Error> {
    let report = Report::create(args.json)?;
    let run_args = RunArgs {
        settings: args.settings.clone(),
        namespace: Namespace::Auto,
        preload: Preload::Auto,
        sockets: None,
        quiet: false,
        verbose: false,
        summary: false,
        require_traffic: false,
        hunt: HuntArgs::default(),
        command: args.command.clone(),
    };
    run::run_observed(&run_args, &mut Explainer::new(report, args.packets.clone()))
}
