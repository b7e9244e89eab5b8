//! Arguments, and their limits.

use super::datapath::Way;
use super::op::Op;
use crate::error::Error;
use clap::Args;
use std::net::IpAddr;
use std::time::Duration;

/// The sizes to measure by default, in bytes.
const DEFAULT_SIZES: [usize; 7] = [2, 8, 64, 512, 4096, 65536, 1 << 20];

/// The longest message that can be measured, in bytes.
pub(super) const MAX_SIZE: usize = 64 << 20;

/// The most requests to post at a time.
pub(super) const BATCH: usize = 64;

/// The time of each bandwidth measurement by default.
const DURATION: Duration = Duration::from_millis(300);

/// The same if there are several ways. Each also has to be set up and checked, and all of it takes no longer
/// than one way.
const DURATION_OF_EACH: Duration = Duration::from_millis(85);

/// Measure bandwidth, message rate and latency of every RC operation
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  roce perf                                two processes on this machine, by each way
  roce perf --op write --size 65536        one operation, one size
  roce perf --server 10.0.0.1              on one host: serve at this address …
  roce perf 10.0.0.1                       … on the other: measure against it
  roce perf --json > result.json           the same figures as JSON

On one machine, packets between two processes of one user take a lane, which is memory that both
share. Without an address, sockets are measured too, by turns: packets to other machines take them.

Bandwidth is measured with --depth messages outstanding, for --duration. Latency is half of the
round trip for SEND and WRITE (each side answers as soon as it sees the other's bytes) and the
whole operation for READ and atomics. Both sides compare received bytes with those that were
sent: every byte in the check rounds, and the last byte of each buffer in the timed ones.")]
pub struct PerfArgs {
    /// The server's address; with --server, the address to listen on
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,

    /// Serve clients until interrupted
    #[arg(long)]
    pub server: bool,

    /// TCP port of the control connection between client and server
    #[arg(long, short = 'p', default_value_t = 18520, value_name = "PORT")]
    pub port: u16,

    /// Operations to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "OP")]
    pub op: Vec<Op>,

    /// Message sizes in bytes, separated by commas; atomics always use 8
    /// [default: 2,8,64,512,4096,65536,1048576]
    #[arg(long, short = 's', value_delimiter = ',', value_name = "BYTES")]
    pub size: Vec<usize>,

    /// The way of packets between two processes on this machine [default: without an address, both
    /// by turns; with one, lane if there is one]
    #[arg(long, value_enum, value_name = "WAY", conflicts_with = "server")]
    pub over: Option<Way>,

    /// Duration of each bandwidth measurement, in milliseconds [default: 300, or 85 for each of
    /// two ways]
    #[arg(long, value_name = "MS")]
    pub duration: Option<u64>,

    /// Round trips in each latency measurement [default: 2000, or as many as 0.2 seconds allow, for
    /// all ways together]
    #[arg(long, short = 'n', value_name = "N")]
    pub iterations: Option<u32>,

    /// For the latency of WRITE, wait for the peer's bytes by polling memory only, as
    /// ib_write_lat does, so that the background thread receives the packets
    #[arg(long)]
    pub watch_memory: bool,

    /// Signal only one request in N. A small WRITE that is not signaled may share its
    /// acknowledgement with others, which saves a packet
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub signal_every: u32,

    /// Messages to keep outstanding while measuring bandwidth
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub depth: usize,

    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 [default: the largest that both links allow]
    #[arg(long, short = 'm', value_name = "BYTES")]
    pub mtu: Option<usize>,

    /// GID index of the local device [default: that of the address in use]
    #[arg(long, short = 'g', value_name = "INDEX")]
    pub gid_index: Option<u8>,

    /// The local address to use [default: the one that leads to the peer]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,

    /// Seed of the payload's pattern [default: drawn at random, and printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Print one JSON object instead of a table; with --server, one object per line for each
    /// client
    #[arg(long)]
    pub json: bool,

    /// Serve one client, then end
    #[arg(long, hide = true)]
    pub once: bool,

    /// Print `ready` on stderr before each bandwidth measurement and `measured` after it, and
    /// wait each time for a line on stdin, so that a script can run several clients in step
    #[arg(long, hide = true)]
    pub in_step: bool,
}

impl PerfArgs {
    /// The operations to measure.
    pub(super) fn ops(&self) -> Vec<Op> {
        if self.op.is_empty() {
            Op::ALL.to_vec()
        } else {
            self.op.clone()
        }
    }

    /// The sizes to measure.
    pub(super) fn sizes(&self) -> Vec<usize> {
        if self.size.is_empty() {
            DEFAULT_SIZES.to_vec()
        } else {
            self.size.clone()
        }
    }

    /// The duration of each bandwidth measurement, with this number of ways.
    pub(super) fn duration_of_each(&self, ways: u32) -> Duration {
        match self.duration {
            Some(ms) => Duration::from_millis(ms),
            None if ways > 1 => DURATION_OF_EACH,
            None => DURATION,
        }
    }

    /// Checks the constraints that clap can't.
    pub(super) fn check(&self) -> Result<(), Error> {
        let usage = |message: String| Err(Error::usage(message));
        if self.server && self.address.is_none() {
            return usage("--server needs the address to serve at, such as 10.0.0.1".into());
        }
        let sizes = self
            .size
            .iter()
            .map(|size| ("size", *size as u64, MAX_SIZE as u64, " bytes"));
        let iterations = self.iterations.unwrap_or(1).into();
        let others = [
            ("depth", self.depth as u64, 1024, ""),
            ("duration", self.duration.unwrap_or(1), 600_000, " ms"),
            ("iterations", iterations, 100_000_000, ""),
        ];
        for (name, value, most, unit) in sizes.chain(others) {
            if !(1..=most).contains(&value) {
                return usage(format!(
                    "--{name} is {value}, but must be 1 to {most}{unit}"
                ));
            }
        }
        let most = self.depth.min(BATCH);
        if !(1..=most).contains(&(self.signal_every as usize)) {
            return usage(format!(
                "--signal-every is {}, but must be 1 to {most}, with --depth {}",
                self.signal_every, self.depth
            ));
        }
        if let Some(mtu) = self.mtu
            && roce_verbs::qp::PathMtu::from_bytes(mtu).is_none()
        {
            return usage(format!(
                "--mtu is {mtu}, but must be 256, 512, 1024, 2048 or 4096"
            ));
        }
        Ok(())
    }
}
