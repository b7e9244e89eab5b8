//! `roce doctor`: what programs will find on this machine, what is missing, and how to fix it.
//!
//! ```text
//! Machine ─► checks, one after the other ─► Findings ─► a table, or JSON
//! files below /, environment                ok, warning, failure; a line to paste
//! ```

mod checks;
mod elf;
mod finding;
mod loader;
mod machine;
mod python;
mod report;
#[cfg(test)]
mod testing;

pub use finding::{Finding, Status};

use checks::Context;
use clap::Args;
use machine::Machine;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what programs will find on this machine, and say what mends the rest
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  roce doctor                              this machine, and this environment
  roce doctor ./my_app ucx_perftest        also which libibverbs these programs load
  roce doctor ~/venv                       … and what the packages of a Python environment bring
  roce run roce doctor                     the same, as a program sees it under `roce run`
  roce doctor --json                       for machines

It takes for granted that programs are started by `roce run`, unless the environment leads to this
stack's library by itself, as after `eval \"$(roce env)\"`. Nothing is changed, and no device opened.

Exit code: 0 if nothing would fail, 1 if something would, 2 for wrong usage.")]
pub struct DoctorArgs {
    /// Programs, by name or path, or folders with a Python environment
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,

    /// The library that `roce run` would be given
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
pub fn run(args: &DoctorArgs) -> io::Result<ExitCode> {
    let machine = Machine::here(args.library.as_deref());
    let findings = examine(&machine, &args.programs);
    report::print(&findings, args.json)?;
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
