//! The environment variables: `roce variables`, which lists them, and their validation.

use crate::error::Error;
use crate::run::Settings;
use crate::words::wrapped;
use roce_trust::output::{self, say};
use roce_verbs::device::OpenError;
use roce_verbs::faults::environment_faults;
use roce_verbs::observation::Capture;
use roce_verbs::settings::{VARIABLES, environment_capture};
use std::process::ExitCode;

/// The column where descriptions begin.
const INDENT: usize = 38;

/// The errors, one for each variable.
type Wrong = Vec<String>;

/// Arguments of `roce variables`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = text())]
pub(crate) struct VariablesArgs {}

/// Prints the variables.
pub(crate) fn run(_: &VariablesArgs) -> Result<ExitCode, Error> {
    output::print_line(text())?;
    Ok(ExitCode::SUCCESS)
}

/// The variables that users set, with their values and meanings.
fn text() -> String {
    let mut text = String::new();
    for variable in VARIABLES {
        if !variable.is_for_users() {
            continue;
        }
        let name = format!("  {}={}", variable.name, variable.values);
        let mut start = format!("{name:<INDENT$}");
        if name.len() >= INDENT {
            text += &format!("{name}\n");
            start = " ".repeat(INDENT);
        }
        text += &wrapped(&start, variable.meaning, INDENT);
    }
    text.push_str(
        "\nAn empty value counts as unset. Other variables that begin with ROCE_ raise a warning.\n\
         `roce devices -v` shows the datapath of each device, and why.",
    );
    text
}

fn texts(errors: &[OpenError]) -> Result<(), Wrong> {
    match errors {
        [] => Ok(()),
        _ => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

/// Checks every variable.
pub(crate) fn check() -> Result<(), Wrong> {
    texts(&roce_verbs::settings::check_environment(&[]))
}

/// Checks the environment of the program to start, except for variables that the command's options
/// override.
pub(crate) fn check_with(settings: &Settings) -> Result<(), Wrong> {
    let mut overridden = Vec::new();
    if settings.faults.is_some() {
        overridden.push("ROCE_FAULTS");
    }
    if settings.devices.is_some() {
        overridden.push("ROCE_DEVICES");
    }
    if let Some(name) = &settings.pcap {
        overridden.push("ROCE_PCAP");
        let checked = Capture::check(name);
        checked.map_err(|error| vec![format!("--pcap is {name:?}: {error}")])?;
    }
    texts(&roce_verbs::settings::check_environment(&overridden))
}

/// Reports if packets are subject to injected faults: a user who measures and has forgotten the
/// variable would look for the cause elsewhere.
pub(crate) fn announce_faults() -> Result<(), Wrong> {
    match environment_faults() {
        Ok(Some(spec)) => say("roce", format_args!("faults are on: {spec}")),
        Ok(None) => {}
        Err(error) => return Err(vec![error.to_string()]),
    }
    Ok(())
}

/// Starts the capture that the environment asks for, and reports its path.
pub(crate) fn begin_capture() -> Result<(), Wrong> {
    environment_capture()
        .map(drop)
        .map_err(|error| vec![error.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::WIDTH;

    #[test]
    fn the_list_names_every_variable_that_users_set_and_is_not_wider_than_help() {
        let text = text();
        for variable in VARIABLES {
            let is_there = text.contains(&format!("  {}=", variable.name));
            assert_eq!(is_there, variable.is_for_users(), "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }
}
