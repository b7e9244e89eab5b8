//! `roce devices`: the RoCE devices of this machine, one for each network interface
//! that is up and has an address, with their GID tables.

mod report;

use std::fmt;
use std::io::{self, Write};

use report::Report;
use roce_trust::output::{self, Stdout};
use roce_verbs::device::OpenError;
use roce_verbs::settings::environment_datapath;

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

/// Why the list could not be made or printed.
#[non_exhaustive]
pub enum DevicesError {
    /// The environment is malformed.
    Environment(OpenError),
    /// The system can't list the interfaces.
    Open(OpenError),
    /// Writing to stdout failed.
    Print(io::Error),
}

impl fmt::Display for DevicesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(error) | Self::Open(error) => error.fmt(f),
            Self::Print(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for DevicesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DevicesError {}

/// Prints the devices.
///
/// # Errors
/// If stdout can't be written, the environment is malformed, or the system can't list the interfaces.
pub fn run(args: &DevicesArgs) -> Result<(), DevicesError> {
    let options = environment_datapath().map_err(DevicesError::Environment)?;
    let report = Report::of_this_machine(&options).map_err(DevicesError::Open)?;
    let mut out = Stdout::lock();
    let printed = if args.json {
        serde_json::to_string_pretty(&report)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        report.write(&mut out, args.verbose)
    };
    output::unless_reader_has_gone(printed.and_then(|()| out.flush()))
        .map(|_| ())
        .map_err(DevicesError::Print)
}
