//! The command line: its subcommands, and the reporting of their errors.

use roce_trust::output::{self, say};
use std::process::ExitCode;

use crate::{
    cdi, decode, devices, doctor, environment, fabric, perf, run, sim, top, variables, why,
};
use clap::{CommandFactory, Parser, Subcommand};

/// RDMA over Converged Ethernet without RDMA hardware.
#[derive(Debug, Parser)]
#[command(name = "roce", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
`roce help COMMAND` describes a command with examples, `roce help variables` the environment variables,
which configure the devices of every program.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an RDMA program on this stack, instead of on libibverbs and RDMA hardware
    Run(run::RunArgs),
    /// Print the environment in which programs run on this stack
    Env(environment::EnvArgs),
    /// Give containers RDMA devices: describe this stack to Podman, Docker and Kubernetes
    Cdi(cdi::CdiArgs),
    /// Explain why requests of a program failed, or what a code in vendor_err means
    Why(why::WhyArgs),
    /// Measure bandwidth, message rate and latency of every operation
    Perf(perf::PerfArgs),
    /// List the RoCE devices of this machine and their GIDs
    Devices(devices::DevicesArgs),
    /// Check whether RDMA programs will work on this machine, and print how to fix what will not
    Doctor(doctor::DoctorArgs),
    /// Print the RoCE packets of a capture file, and a summary of each flow
    Decode(decode::DecodeArgs),
    /// Run swarms of simulated fabrics against an independent model of verbs semantics
    Sim(sim::SimArgs),
    /// Make a cluster of hosts on this machine, joined by an emulated network, and run a program on it
    Fabric(Box<fabric::FabricArgs>),
    /// Show rates, retransmissions and drops of each process and device, live
    Top(top::TopArgs),
    /// List the environment variables that configure devices, programs and commands
    Variables(variables::VariablesArgs),
}

/// The command line, for generating documents from it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// The `roce` command, from this process's arguments to its exit code.
pub fn main() -> ExitCode {
    // These are for processes of this project, and not in the help: `roce run` and `roce doctor` start the
    // probe, and libroce_preload.so asks for the files.
    let is_asked_for = |argument| std::env::args_os().skip(1).eq([argument]);
    if is_asked_for(run::PROBE) {
        return run::probe();
    }
    if is_asked_for(run::MAKE_DEVICE_FILES) {
        return run::make_device_files();
    }
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(shown) => return show(&shown),
    };
    if let Err(code) = check_environment(&command) {
        return code;
    }
    let (name, result) = match command {
        Command::Run(args) => ("roce run", run::run(&args)),
        Command::Why(args) => ("roce why", why::run(&args)),
        Command::Cdi(args) => ("roce cdi", cdi::run(&args)),
        Command::Env(args) => ("roce env", environment::run(&args)),
        Command::Perf(args) => ("roce perf", perf::run(&args)),
        Command::Devices(args) => ("roce", devices::run(&args)),
        Command::Doctor(args) => ("roce", doctor::run(&args)),
        Command::Decode(args) => ("roce", decode::run(&args)),
        Command::Top(args) => ("roce top", top::run(&args)),
        Command::Variables(args) => ("roce", variables::run(&args)),
        Command::Sim(args) => ("roce", sim::run_command(&args)),
        Command::Fabric(args) => ("roce fabric", fabric::run(&args)),
    };
    result.unwrap_or_else(|error| match error.reader_has_gone() {
        true => ExitCode::SUCCESS,
        false => {
            say(name, &error);
            ExitCode::from(error.exit_code())
        }
    })
}

/// Shows help or the version on stdout, or wrong usage on stderr. Returns the exit code, which is 2 for
/// wrong usage.
fn show(shown: &clap::Error) -> ExitCode {
    output::exit_code_of_usage("roce", shown.print(), !shown.use_stderr())
}

/// Checks the environment that the command, or the program that it starts, depends on.
///
/// # Errors
/// The exit code, if something is wrong, after the message on stderr.
fn check_environment(command: &Command) -> Result<(), ExitCode> {
    if !matches!(command, Command::Doctor(_)) {
        roce_verbs::settings::warn_of_unknown_variables();
    }
    let checked = match command {
        Command::Perf(_) => variables::check().and_then(|()| {
            variables::announce_faults()?;
            variables::begin_capture()
        }),
        Command::Devices(_) => variables::check().and_then(|()| variables::announce_faults()),
        Command::Run(run::RunArgs { settings, .. })
        | Command::Why(why::WhyArgs { settings, .. })
        | Command::Env(environment::EnvArgs { settings, .. }) => variables::check_with(settings),
        // Containers do not get this environment.
        Command::Cdi(_)
        // `roce doctor` reports the environment among its findings.
        | Command::Decode(_)
        | Command::Doctor(_)
        // It starts programs by `roce run`, which checks its environment.
        | Command::Fabric(_)
        | Command::Sim(_)
        | Command::Top(_)
        | Command::Variables(_) => Ok(()),
    };
    checked.map_err(|errors| {
        for error in errors {
            say("roce", error);
        }
        ExitCode::from(2)
    })
}
