//! `roce fabric`: a cluster of hosts on this machine.

mod arguments;
mod ask;
mod capture;
mod names;
mod report;
#[cfg(test)]
mod testing;
mod top;
mod watching;

pub use arguments::{FabricArgs, Topology};

use crate::error::Error;
use crate::run::parent;
use arguments::Command;
use roce_fabric::{Cluster, ClusterPlan, LATE, Lag};
use roce_sim::network::{Change, Event, FaultSpec, Link, LinkChange, Network};
use roce_trust::output::say;
use roce_trust::{environment, files};
use roce_verbs::observation::watch_processes;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use watching::Watching;

/// Makes the cluster and runs the program on its first host; or does what a subcommand says.
pub fn run(args: &FabricArgs) -> Result<ExitCode, Error> {
    match &args.command {
        Some(Command::Ssh(args)) => ask::ssh(args),
        Some(Command::Do(args)) => ask::change(args),
        Some(Command::Top(args)) => ask::top(args),
        None => start(args),
    }
}

fn start(args: &FabricArgs) -> Result<ExitCode, Error> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => getrandom::u64().map_err(|error| Error::system("draw a seed", error))?,
    };
    let network = args.network.network(seed, args.mtu)?;
    let random = args.network.troubles > 0 || has_chance(&network);
    if args.seed.is_none() && random {
        report(format_args!("seed {seed}"));
    }
    let roce = env::current_exe().map_err(|error| Error::system("find this program", error))?;
    let folder =
        env::current_dir().map_err(|error| Error::system("find the current folder", error))?;
    let agent = format!("{} fabric ssh", roce.display());
    let plan = ClusterPlan {
        network,
        seed,
        mtu: args.mtu.into(),
        slots: args.slots,
        prefix: run_command(&roce),
        variables: roce_fabric::mpi_variables(&agent),
        fit_congestion_control: environment::variable("ROCE_CC").is_none(),
        look,
    };
    // Another user may have taken the name of the socket. The cluster does not depend on it.
    let door = roce_fabric::door();
    if let Err(error) = &door {
        report(format_args!(
            "no requests from outside of the cluster: {error}"
        ));
    }
    // In the namespaces of the cluster, it could not be told whose folders and links these are.
    let made = args.watch.report.as_deref().map(|folder| {
        files::create_folders(folder)
            .map_err(|error| Error::write(folder, &error).with_exit_code(125))
    });
    let report_folder = made.transpose()?;
    let report_folder = report_folder.as_deref();
    roce_fabric::enter()?;
    let end = parent::run_forked(
        || match serve(args, plan, door.ok(), &folder, report_folder) {
            Ok(code) => code,
            Err(error) => {
                report(&error);
                error.exit_code()
            }
        },
    );
    let end = end.map_err(|error| Error::system("start a process", error))?;
    Ok(end.repeat())
}

/// The first process in the namespaces of the cluster: the hosts, and the network between them.
fn serve(
    args: &FabricArgs,
    plan: ClusterPlan,
    door: Option<OwnedFd>,
    folder: &Path,
    report_folder: Option<&Path>,
) -> Result<u8, Error> {
    let network = plan.network.clone();
    let mut cluster = Cluster::start(plan, door)?;
    let words = match &args.program[..] {
        [] => vec![env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())],
        words => words.to_vec(),
    };
    let mut watching =
        Watching::new(&args.watch, &network, cluster.fabric()).map_err(Error::usage)?;
    let code = cluster.run(0, &words, folder, &mut watching)?;
    report_lag(cluster.lag(), args.verbose);
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    watching
        .report(report_folder, &words.join(" "))
        .map_err(|error| error.with_exit_code(125))?;
    Ok(code)
}

/// How long a program may take to say what QPs it has. One that is stopped says nothing.
const PATIENCE: Duration = Duration::from_millis(200);

/// The RDMA programs of a host, and their QPs; nothing if there are none.
fn look() -> String {
    let Ok(found) = watch_processes(PATIENCE) else {
        return String::new();
    };
    let programs = found.snapshots.len() + found.silent;
    let devices = found.snapshots.iter().flat_map(|program| &program.devices);
    let qps: u64 = devices
        .map(|device| device.qps.len() as u64 + device.qps_left_out)
        .sum();
    let silent = match found.silent {
        0 => String::new(),
        silent => format!(", and those of {silent} that do not answer"),
    };
    match programs {
        0 => String::new(),
        programs => format!("RDMA programs: {programs}, QPs: {qps}{silent}"),
    }
}

/// The command that starts every program. The loopback would be a second device, which leads to no
/// other host.
fn run_command(roce: &Path) -> Vec<OsString> {
    let words = ["run", "--quiet", "--devices", roce_fabric::NAME, "--"];
    let mut command = vec![roce.as_os_str().to_owned()];
    command.extend(words.map(OsString::from));
    command
}

/// Whether the network draws random numbers.
fn has_chance(network: &Network) -> bool {
    let faults = |link: &Link| link.faults != FaultSpec::default();
    let later = |event: &Event| {
        let Change::Link(_, change) = event.change else {
            return false;
        };
        matches!(change, LinkChange::Faults(_) | LinkChange::FaultsFrom(..))
    };
    // Several switches may have several paths, of which they choose by a random key.
    let paths = network.switches.len() > 1;
    let network_draws = network.marks() || network.links.iter().any(faults);
    network_draws || paths || network.events.iter().any(later)
}

/// The part of events that may be late without a warning.
const TOLERATED: f64 = 0.01;

/// So few late events distort nothing.
const FEW: u64 = 100;

/// A saturation that is shorter may be the start of programs.
const MUCH: Duration = Duration::from_millis(500);

fn report_lag(lag: &Lag, verbose: bool) {
    let part = lag.late() as f64 / lag.events().max(1) as f64;
    // The first frames of a cluster are late while its hosts start.
    let late = part > TOLERATED && lag.late() >= FEW;
    if late {
        report(format_args!(
            "{:.1} % of all packets were later than {LATE:?}, because this machine did not keep up: \
             what was measured is distorted. --rate or --slower slows the links down",
            100.0 * part
        ));
    }
    let saturated = lag.saturated();
    if saturated >= MUCH && saturated.as_secs_f64() > TOLERATED * lag.time().as_secs_f64() {
        report(format_args!(
            "hosts sent more than this machine can carry for {:.1} of {:.1} s: frames waited in their \
             interfaces, and what was measured is distorted. --rate or --slower slows the links down",
            saturated.as_secs_f64(),
            lag.time().as_secs_f64()
        ));
    }
    if late || verbose {
        report(format_args!(
            "{} events: half of them at most {:?} late, 99 % at most {:?}, all at most {:?}",
            lag.events(),
            lag.quantile(0.5),
            lag.quantile(0.99),
            lag.longest()
        ));
    }
}

fn report(message: impl Display) {
    say("roce fabric", message);
}
