//! `nvme-rdma serve`: a target.

use super::{Outcome, say, size};
use crate::address::parse_socket;
use crate::target::{Backing, Subsystem, Target, TargetOptions};
use crate::wire::Nqn;
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use roce_trust::output;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{io, thread};

/// How often the command looks whether connections have failed.
const TICK: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Listen at this address of an RDMA device; without a port at port 4420
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_address)]
    listen: SocketAddr,
    /// The subsystem's name
    #[arg(
        long,
        value_name = "NQN",
        default_value = "nqn.2014-08.org.nvmexpress:roce"
    )]
    name: Nqn,
    /// A namespace: a file or block device; `FILE,SIZE` creates the file if it does not exist;
    /// `memory,SIZE` is lost at the end; `,read-only` may follow. SIZE is in bytes, or with K, M, G or
    /// T in units of 1024
    #[arg(
        long = "namespace",
        value_name = "FILE[,SIZE]",
        required = true,
        value_parser = parse_namespace
    )]
    namespaces: Vec<Backing>,
    /// I/O queues that a host may have
    #[arg(long, value_name = "N", default_value_t = TargetOptions::default().limits.queues)]
    queues: u16,
    /// Bytes of data that a command capsule may have, a multiple of 16
    #[arg(long, value_name = "BYTES", default_value = "8K", value_parser = size::parse)]
    in_capsule: u64,
    /// Print JSON: one line when the target listens, and one at the end
    #[arg(long)]
    json: bool,
}

/// Serves until SIGINT or SIGTERM comes.
pub(super) fn run(args: &ServeArgs) -> Outcome {
    // Before there are other threads, so that none of them takes the signals.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block()?;
    let mut subsystem = Subsystem::new(args.name.clone());
    subsystem.namespaces = args.namespaces.clone();
    let mut options = TargetOptions::default();
    options.limits.queues = args.queues;
    // Too many are refused below.
    options.limits.in_capsule_len = args.in_capsule.try_into().unwrap_or(u32::MAX);
    let target = Target::listen(args.listen, subsystem, options)?;
    let address = target.address().to_string();
    match args.json {
        true => output::print_line(serde_json::json!({ "listening": address }))?,
        false => output::print_line(format_args!("listening at {address}"))?,
    }
    let ended = wait_for(signals)?;
    while ended.recv_timeout(TICK).is_err() {
        target.take_failures().iter().for_each(say::say);
    }
    summarize(&target, args.json)?;
    Ok(())
}

/// Prints what the target has done.
fn summarize(target: &Target, json: bool) -> io::Result<()> {
    let done = target.snapshot();
    match json {
        true => output::print_line(serde_json::json!({
            "commands": done.commands,
            "errors": done.errors,
            "bytes_read": done.bytes_read,
            "bytes_written": done.bytes_written,
            "refused": done.refused,
            "failed": done.failed,
        })),
        false => output::print_line(format_args!(
            "{} commands, {} of them answered with an error; {} read, {} written",
            done.commands,
            done.errors,
            size::show(done.bytes_read),
            size::show(done.bytes_written)
        )),
    }
}

/// A channel that gets an item when one of `signals` comes.
fn wait_for(signals: SigSet) -> io::Result<Receiver<()>> {
    let (sender, receiver) = channel();
    let wait = move || {
        // A failure ends the command, too.
        let _ = signals.wait();
        // This fails if the command has ended otherwise.
        let _ = sender.send(());
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(receiver)
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    parse_socket(text).ok_or_else(|| {
        format!("{text:?} is no IP address with or without a port, for example 10.0.0.1:4420")
    })
}

fn parse_namespace(text: &str) -> Result<Backing, String> {
    let (place, read_only) = match text.strip_suffix(",read-only") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let backing = match place.rsplit_once(',') {
        Some(("memory", len)) => Backing::memory(size::parse(len)?),
        Some((path, len)) => Backing::file_or_new(path, size::parse(len)?),
        None => Backing::file(place),
    };
    Ok(if read_only {
        backing.read_only()
    } else {
        backing
    })
}
