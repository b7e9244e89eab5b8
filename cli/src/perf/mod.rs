//! `roce perf`: how fast data moves, with every operation, checked byte for byte.
//!
//! Two processes: a client that measures and a server that answers. They speak over
//! a TCP connection about what to measure, and over RDMA for the
//! measurement itself. Without arguments, the client starts a server of its own and
//! everything runs over the loopback interface.

mod args;
mod bandwidth;
mod carrier;
mod client;
mod control;
mod end;
mod error;
mod latency;
mod local;
mod network;
mod op;
mod pattern;
mod report;
mod server;

pub use args::PerfArgs;
pub use error::PerfError;

use std::process::ExitCode;

/// Runs the subcommand.
///
/// # Errors
/// If the peer is not there, stops answering, or delivers wrong bytes.
pub fn run(args: &PerfArgs) -> Result<ExitCode, PerfError> {
    args.check()?;
    if args.server {
        server::run(args)?;
    } else if let Some(host) = &args.address {
        let report = client::run(args, host, args.port, None)?;
        report::print(args, &report);
    } else {
        let report = local::run(args)?;
        report::print(args, &report);
    }
    Ok(ExitCode::SUCCESS)
}
