//! `roce devices`: the RoCE devices of this machine, one for each network interface
//! that is up and has an address, with their GID tables.

mod report;

use std::fmt;
use std::io::{self, Write};

use report::Report;

/// Arguments of `roce devices`.
#[derive(Clone, Debug, clap::Args)]
pub struct DevicesArgs {
    /// Also show how packets travel and why so, and the interfaces that are no
    /// devices
    #[arg(short, long)]
    pub verbose: bool,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// The list could not be printed.
#[derive(Debug)]
pub struct DevicesError(io::Error);

impl fmt::Display for DevicesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't print: {}", self.0)
    }
}

impl std::error::Error for DevicesError {}

/// Prints the devices.
///
/// # Errors
/// If stdout does not take them.
pub fn run(args: &DevicesArgs) -> Result<(), DevicesError> {
    let report = Report::of_this_machine();
    let mut out = io::stdout().lock();
    let printed = if args.json {
        serde_json::to_string_pretty(&report)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        report.write(&mut out, args.verbose)
    };
    printed.map_err(DevicesError)
}
