//! The `nvme-rdma` command: disks over NVMe and RDMA, without the kernel.

mod args;
mod bench;
mod discover;
mod disk;
mod info;
mod pump;
mod say;
mod serve;
mod size;
mod transfer;

use clap::{CommandFactory, Parser, Subcommand};
use roce_trust::output;
use std::process::ExitCode;

/// The result of a subcommand: the exit code if nothing went wrong, or an error to print.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Disks over NVMe and RDMA, without the kernel
#[derive(Debug, Parser)]
#[command(
    name = "nvme-rdma",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  nvme-rdma discover nvme://10.0.0.2                      which subsystems are there
  nvme-rdma info nvme://10.0.0.2/nqn.2014-08.org:disk1    a controller and its namespaces
  nvme-rdma write nvme://10.0.0.2/nqn.2014-08.org:disk1 --from image.raw
  nvme-rdma read nvme://10.0.0.2/nqn.2014-08.org:disk1 --length 1M | sha256sum
  nvme-rdma bench nvme://10.0.0.2/nqn.2014-08.org:disk1 --block 4K --queues 4
  nvme-rdma serve --listen 10.0.0.1 --namespace disk.img,1G"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the subsystems that a discovery service knows
    Discover(discover::DiscoverArgs),
    /// Show a controller and its namespaces
    Info(info::InfoArgs),
    /// Copy bytes of a namespace to a file
    Read(transfer::ReadArgs),
    /// Copy a file to a namespace
    Write(transfer::WriteArgs),
    /// Measure operations per second, bandwidth and latency
    Bench(bench::BenchArgs),
    /// Offer files or memory to hosts, until SIGINT or SIGTERM
    Serve(serve::ServeArgs),
}

/// The command line, for generating documents from it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// The command, from this process's arguments to its exit code.
pub fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(shown) => return show(&shown),
    };
    let outcome = match command {
        Command::Discover(args) => discover::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Read(args) => transfer::read(&args),
        Command::Write(args) => transfer::write(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Serve(args) => serve::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::say(error);
            ExitCode::FAILURE
        }
    }
}

/// Shows help or the version on stdout, or wrong usage on stderr. Returns the exit code, which is 2 for
/// wrong usage.
fn show(shown: &clap::Error) -> ExitCode {
    output::exit_code_of_usage("nvme-rdma", shown.print(), !shown.use_stderr())
}
