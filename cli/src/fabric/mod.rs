//! `roce fabric`: a cluster of hosts on this machine.

mod arguments;
mod error;
mod ssh;

pub use arguments::FabricArgs;
pub use error::FabricCommandError;

use crate::run::parent::{self, ProgramEnd};
use crate::say::say;
use arguments::{Command, NetworkArgs};
use roce_fabric::{Cluster, ClusterPlan, FabricError};
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Makes the cluster and runs the program on its first host; or does what a subcommand says.
///
/// # Errors
/// If an argument is wrong, or the system does not allow something.
pub fn run(args: &FabricArgs) -> Result<ExitCode, FabricCommandError> {
    match &args.command {
        Some(Command::Ssh(args)) => ssh::run(args),
        None => start(args),
    }
}

fn start(args: &FabricArgs) -> Result<ExitCode, FabricCommandError> {
    let system = |what: &str, source| FabricCommandError::System {
        what: what.to_owned(),
        source,
    };
    let roce = env::current_exe().map_err(|error| system("find this program", error))?;
    let folder = env::current_dir().map_err(|error| system("find the current folder", error))?;
    roce_fabric::enter()?;
    let end = parent::run_forked(|| match serve(args, &roce, &folder) {
        Ok(code) => code,
        Err(error) => {
            say("roce fabric", &error);
            FabricCommandError::NOT_MADE
        }
    });
    match end.map_err(|error| system("start a process", error))? {
        ProgramEnd::Code(code) => Ok(ExitCode::from(code)),
        ProgramEnd::Signal(signal) => {
            parent::die_by_signal(signal);
            // The shell's convention, in case this process survives the signal.
            Ok(ExitCode::from(128_u8.saturating_add(signal as u8)))
        }
    }
}

/// The first process in the namespaces of the cluster: the hosts, and the network between them.
fn serve(args: &FabricArgs, roce: &Path, folder: &Path) -> Result<u8, FabricError> {
    let network: &NetworkArgs = &args.network;
    let names: Vec<String> = (1..=args.hosts).map(|n| format!("h{n}")).collect();
    let agent = format!("{} fabric ssh", roce.display());
    let plan = ClusterPlan {
        mtu: network.mtu,
        slots: args.slots,
        prefix: run_command(roce),
        variables: roce_fabric::mpi_variables(&agent),
        names,
    };
    let mut cluster = Cluster::start(plan, network.star(args.hosts))?;
    let words = match &args.program[..] {
        [] => vec![env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())],
        words => words.to_vec(),
    };
    let code = cluster.run(0, &words, folder)?;
    if args.verbose {
        let lag = cluster.lag();
        say(
            "roce fabric",
            format_args!(
                "{} events; half of them at most {:?} late, 99 % at most {:?}, all at most {:?}",
                lag.events(),
                lag.quantile(0.5),
                lag.quantile(0.99),
                lag.longest()
            ),
        );
    }
    Ok(code)
}

/// The command that starts every program. The loopback would be a second device, which leads to no
/// other host.
fn run_command(roce: &Path) -> Vec<OsString> {
    let words = ["run", "--quiet", "--devices", roce_fabric::NAME, "--"];
    let mut command = vec![roce.as_os_str().to_owned()];
    command.extend(words.map(OsString::from));
    command
}
