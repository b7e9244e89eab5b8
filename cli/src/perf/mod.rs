//! `roce perf`: measures the speed of every operation, and compares every byte.
//!
//! There are two processes: a client that measures and a server that answers. They agree over a TCP
//! connection on what to measure, and use RDMA for the measurement itself. Without arguments, the
//! client starts a server of its own and everything runs over the loopback interface.

mod args;
mod bandwidth;
mod client;
mod control;
mod datapath;
mod end;
mod latency;
mod local;
mod network;
mod op;
mod pattern;
mod report;
mod server;

pub use args::PerfArgs;

use crate::error::Error;

use std::process::ExitCode;

/// Runs the subcommand.
pub fn run(args: &PerfArgs) -> Result<ExitCode, Error> {
    args.check()?;
    match &args.address {
        _ if args.server => server::run(args)?,
        Some(host) => report::print(args, client::run(args, host, args.port, None)?)?,
        None => report::print(args, local::run(args)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
