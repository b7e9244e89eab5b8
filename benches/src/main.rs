//! Runs the benchmarks: a command for each question.

// The print macros panic if the output can't be written; `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod commands;

use clap::Parser;
use commands::{
    builds, connections, curves, destinations, fabric, figures, flames, guest, local, lossy, marks,
    ordinary, pacer, programs, recovery, scale, sockets, storage, xdp,
};
use roce_benches::command::NAME;
use roce_trust::output::{exit_code_of_usage, say};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::process::ExitCode;

/// Counts allocations, for `scale`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Benchmarks, side by side with other programs
///
/// Figures that are quoted come from builds with `--profile fat-lto`, as packages have them.
#[derive(Debug, Parser)]
#[command(name = "roce-benches")]
enum Command {
    Builds(builds::Args),
    Connections(connections::Args),
    Curves(curves::Args),
    Destinations(destinations::Args),
    Fabric(fabric::Args),
    Figures(figures::Args),
    Flames(flames::Args),
    Guest(guest::Args),
    Local(local::Args),
    Lossy(lossy::Args),
    Marks(marks::Args),
    Ordinary(ordinary::Args),
    Pacer(pacer::Args),
    Programs(programs::Args),
    Recovery(recovery::Args),
    Scale(scale::Args),
    Sockets(sockets::Args),
    Storage(storage::Args),
    Xdp(xdp::Args),
}

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(shown) => return exit_code_of_usage(NAME, shown.print(), !shown.use_stderr()),
    };
    let done = match command {
        Command::Builds(args) => builds::run(&args),
        Command::Connections(args) => connections::run(&args),
        Command::Curves(args) => curves::run(&args),
        Command::Destinations(args) => destinations::run(&args),
        Command::Fabric(args) => fabric::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Flames(args) => flames::run(&args),
        Command::Guest(args) => guest::run(&args),
        Command::Local(args) => local::run(&args),
        Command::Lossy(args) => lossy::run(&args).map_err(|error| error.to_string()),
        Command::Marks(args) => marks::run(&args),
        Command::Ordinary(args) => ordinary::run(&args),
        Command::Pacer(args) => pacer::run(&args),
        Command::Programs(args) => programs::run(&args),
        Command::Recovery(args) => recovery::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Sockets(args) => sockets::run(&args),
        Command::Storage(args) => storage::run(&args),
        Command::Xdp(args) => xdp::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(NAME, error);
            ExitCode::FAILURE
        }
    }
}
