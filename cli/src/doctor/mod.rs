//! `roce doctor`: what programs will find on this machine, what is missing, and how to fix it.
//!
//! ```text
//! Machine ─► checks, one after the other ─► Findings ─► a table, or JSON
//! files below /, environment                ok, warning, failure; a line to paste
//! ```

mod checks;
mod finding;
mod loader;
mod machine;
mod python;
mod report;
#[cfg(test)]
pub(crate) mod testing;

pub use finding::{Finding, Status};

use crate::error::Error;
use checks::Context;
use clap::Args;
use machine::Machine;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check whether RDMA programs will work on this machine, and print how to fix what will not
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  roce doctor                              this machine, and this environment
  roce doctor ./my_app ucx_perftest        also which libibverbs these programs load
  roce doctor ~/venv                       also the libraries that a Python environment bundles
  roce run roce doctor                     the same, as a program sees it under `roce run`
  roce doctor --json                       the same as JSON

The checks assume that programs are started by `roce run`, unless the environment already leads to
this stack's library, as after `eval \"$(roce env)\"`. They change nothing and open no device.

Exit code: 0 if nothing would fail, 1 if something would, 2 for wrong usage.")]
pub struct DoctorArgs {
    /// Programs to check, by name or path, or folders of Python environments
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,

    /// The library to check, as for `roce run --library`
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Checks everything, and prints it.
///
/// # Errors
/// If stdout can't be written.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Error> {
    let machine = Machine::here(args.library.as_deref());
    let findings = examine(&machine, &args.programs);
    report::print(&findings, args.json)?;
    // `roce run roce doctor` opens no device, and needs no advice to look for the cause.
    // SAFETY: this process has no other thread that reads the environment.
    unsafe { std::env::remove_var("ROCE_TALLY") };
    Ok(match report::worst(&findings) {
        Status::Failure => ExitCode::from(1),
        Status::Ok | Status::Warning => ExitCode::SUCCESS,
    })
}

/// All findings; those of programs come last.
fn examine(machine: &Machine, programs: &[String]) -> Vec<Finding> {
    let context = Context::new(machine);
    let general = checks::ALL.iter().flat_map(|check| check(&context));
    let of_programs = programs
        .iter()
        .flat_map(|program| checks::program(&context, program));
    general.chain(of_programs).collect()
}
