//! The command line: which subcommand, and what becomes of its errors.

use crate::say::say;
use std::process::ExitCode;

use crate::{decode, devices, dump, environment, perf, pingpong, run, sim, top};
use clap::{CommandFactory, Parser, Subcommand};
use roce_verbs::{
    OpenError, environment_capture, environment_congestion, environment_datapath,
    environment_faults, environment_metrics, environment_priorities,
};

/// What changes how devices work, whatever the subcommand.
const ENVIRONMENT: &str = "\
Environment:
  ROCE_DATAPATH=auto|udp|xdp          how packets travel [default: auto]: UDP sockets, or AF_XDP,
                                      which takes privilege; auto takes AF_XDP where the
                                      driver does zero-copy
  ROCE_UDP_BUFFER_MIB=N               with UDP sockets: the receive buffer to ask of the kernel
                                      [default: 4]
  ROCE_XDP_MODE=auto|native|generic   with AF_XDP: its program runs in the driver, or in the kernel
  ROCE_XDP_QUEUES=N                   with AF_XDP: use the interface's first N queues [default: all]
  ROCE_XDP_CHECKSUM=none|auto|software
                                      with AF_XDP over IPv6: who fills in UDP checksums
                                      [default: none]
  ROCE_XDP_PRIORITY_TAG=1             with AF_XDP: frames carry a tag that says their priority
  ROCE_V1=1                           with AF_XDP: RoCE v1, too; auto takes AF_XDP then
  ROCE_FAULTS=loss=1%,...             faults on purpose
  ROCE_CC=dcqcn|delay|none[,paper|connectx][,NAME=VALUE...]|@FILE
                                      congestion control [default: dcqcn,paper], by the names
                                      that NVIDIA's adapters have for its parameters
  ROCE_QOS=NAME=VALUE,...|@FILE       traffic classes and priorities: default_roce_tos=104,
                                      traffic_class=104, sl2dscp=3:26, dscp-prio=26:3
  ROCE_PCAP=run-%p.pcapng             packets are captured, each with what became of it;
                                      %p is the number of the process
  ROCE_METRICS=9100                   metrics for Prometheus, over HTTP at this port of the
                                      loopback, or at ADDRESS:PORT
  ROCE_DEVICES=eth0,...               only these devices [default: all]

`roce devices -v` says what each device takes, and why.";

/// RDMA over Converged Ethernet without RDMA hardware.
#[derive(Debug, Parser)]
#[command(name = "roce", version, arg_required_else_help = true, after_help = ENVIRONMENT)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start an RDMA program on this stack, in the place of libibverbs and RDMA hardware
    Run(run::RunArgs),
    /// Print the environment in which programs run on this stack
    Env(environment::EnvArgs),
    /// Measure bandwidth, message rate and latency of every operation
    Perf(perf::PerfArgs),
    /// Send a message back and forth, with itself or with ibv_rc_pingpong
    Pingpong(pingpong::PingpongArgs),
    /// Show the RoCE devices of this machine, and their GIDs
    Devices(devices::DevicesArgs),
    /// Print the RoCE packets of a capture file, and a summary of each flow
    Decode(decode::DecodeArgs),
    /// Capture the RoCE packets that pass an interface, or print them
    Dump(dump::DumpArgs),
    /// Run swarms of simulated fabrics against a model of what verbs promise
    Sim(sim::SimArgs),
    /// Show what processes do with their devices, live: rates, retransmissions, drops
    Top(top::TopArgs),
}

/// The command line, for those who make documents of it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// The `roce` command, from this process's arguments to its exit code.
pub fn main() -> ExitCode {
    // Only for `roce run`, so nobody is told of it.
    if std::env::args_os().skip(1).eq([run::PROBE]) {
        return run::probe();
    }
    // Wrong usage ends in here, with exit code 2.
    let command = Cli::parse().command;
    if let Err(error) = check_environment(&command) {
        say("roce", &error);
        return ExitCode::from(2);
    }
    let result = match command {
        Command::Run(args) => {
            let Err(error) = run::run(&args);
            say("roce run", &error);
            Ok(ExitCode::from(error.exit_code()))
        }
        Command::Env(args) => match environment::run(&args) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                say("roce env", &error);
                Ok(ExitCode::from(error.exit_code()))
            }
        },
        Command::Perf(args) => match perf::run(&args) {
            Ok(code) => Ok(code),
            Err(error) => {
                say("roce perf", &error);
                Ok(ExitCode::from(error.exit_code()))
            }
        },
        Command::Pingpong(args) => match pingpong::run(&args) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                say("roce pingpong", &error);
                Ok(ExitCode::from(error.exit_code()))
            }
        },
        Command::Devices(args) => devices::run(&args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|e| e.to_string()),
        Command::Decode(args) => decode::run(&args).map_err(|e| e.to_string()),
        Command::Dump(args) => match dump::run(&args) {
            Ok(code) => Ok(code),
            Err(error) => {
                say("roce dump", &error);
                Ok(ExitCode::from(error.exit_code()))
            }
        },
        Command::Top(args) => match top::run(&args) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                say("roce top", &error);
                Ok(ExitCode::from(1))
            }
        },
        Command::Sim(args) => sim::run_command(&args).map_err(|e| e.to_string()),
    };
    result.unwrap_or_else(|error| {
        say("roce", &error);
        ExitCode::from(1)
    })
}

/// Says what is wrong with the environment, and that packets suffer faults or are captured,
/// where they are: who measures and forgets that a variable is set would look for the cause
/// elsewhere.
fn check_environment(command: &Command) -> Result<(), OpenError> {
    let (has_devices, opens_them) = match command {
        Command::Perf(_) | Command::Pingpong(_) => (true, true),
        Command::Devices(_) => (true, false),
        // They check it themselves: their options override it.
        Command::Run(_) | Command::Env(_) => (false, false),
        Command::Decode(_) | Command::Dump(_) | Command::Sim(_) | Command::Top(_) => (false, false),
    };
    if has_devices {
        environment_datapath()?;
        environment_congestion()?;
        environment_priorities()?;
        if let Some(spec) = environment_faults()? {
            say("roce", format_args!("faults are on: {spec}"));
        }
    }
    if opens_them {
        environment_metrics()?;
    }
    if opens_them && let Some(capture) = environment_capture()? {
        say(
            "roce",
            format_args!("capturing to {}", capture.path().display()),
        );
    }
    Ok(())
}
