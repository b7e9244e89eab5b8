//! `roce devices`: the RoCE devices of this machine, one for each network interface
//! that is up and has an address, with their GID tables.

mod report;

use crate::error::Error;
use report::Report;
use roce_trust::output::{self, Stdout};
use roce_verbs::settings::environment_datapath;
use std::process::ExitCode;

/// Arguments of `roce devices`.
#[derive(Clone, Debug, clap::Args)]
pub struct DevicesArgs {
    /// Also show the datapath of each device with the reason, and the interfaces that are
    /// not devices
    #[arg(short, long)]
    pub verbose: bool,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the devices.
///
/// # Errors
/// If stdout can't be written, the environment is malformed, or the system can't list the interfaces.
pub fn run(args: &DevicesArgs) -> Result<ExitCode, Error> {
    let report = Report::of_this_machine(&environment_datapath()?)?;
    match args.json {
        true => output::print_line(serde_json::to_string_pretty(&report)?)?,
        false => {
            _ = output::unless_reader_has_gone(report.write(&mut Stdout::lock(), args.verbose))?
        }
    }
    Ok(ExitCode::SUCCESS)
}
