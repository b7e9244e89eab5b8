//! The command line of `roce pingpong`: the options of ibv_rc_pingpong and its siblings, and a few
//! more.

use std::net::IpAddr;
use std::time::Duration;

use roce_verbs::QpKind;

/// Arguments of `roce pingpong`.
#[derive(Clone, Debug, clap::Args)]
pub struct PingpongArgs {
    /// Host of the server; without HOST, run as the server
    pub host: Option<String>,

    /// Transport service, the same on both ends: rc (reliable connection), uc
    /// (unreliable connection) or ud (datagrams). The other end may be the
    /// ibv_*_pingpong of that name
    #[arg(long = "type", value_name = "TYPE", default_value = "rc")]
    pub kind: Service,

    /// TCP port over which the two ends exchange their QPs' addresses
    #[arg(short, long, default_value = "18515", value_parser = tcp_port)]
    pub port: u16,

    /// Device; by default the first that is not loopback, or loopback if HOST is
    /// on it. `roce devices` lists the devices
    #[arg(short = 'd', long = "ib-dev", value_name = "DEVICE")]
    pub device: Option<String>,

    /// Port of the device; these devices have one port, number 1
    #[arg(short = 'i', long = "ib-port", value_name = "PORT", default_value = "1", value_parser = in_range::<1, 1>)]
    pub ib_port: u64,

    /// Message size in bytes; by default 4096; with ud 2048, or the path MTU if
    /// that is smaller
    #[arg(short, long, value_parser = bytes)]
    pub size: Option<usize>,

    /// Path MTU in bytes, the same on both ends: 256, 512, 1024, 2048 or 4096; by
    /// default 1024. Not with ud, whose messages are single packets
    #[arg(short, long)]
    pub mtu: Option<String>,

    /// Receive requests to keep posted
    #[arg(short, long, value_name = "DEPTH", default_value = "500", value_parser = depth)]
    pub rx_depth: usize,

    /// Messages to send each way
    #[arg(short = 'n', long, default_value = "1000", value_parser = in_range::<1, 0xffff_ffff>)]
    pub iters: u64,

    /// Service level, which ROCE_QOS may map to a DSCP (sl2dscp)
    #[arg(short = 'l', long, default_value = "0", value_parser = in_range::<0, 15>)]
    pub sl: u64,

    /// Sleep until a completion event arrives, instead of polling
    #[arg(short, long)]
    pub events: bool,

    /// Index in the device's GID table; by default that of the first IPv4 address
    #[arg(short = 'g', long = "gid-idx", value_name = "INDEX", value_parser = in_range::<0, 255>)]
    pub gid_index: Option<u64>,

    /// Check every byte of every message (the other end needs -c too). The result
    /// includes the time that this takes
    #[arg(short = 'c', long = "chk")]
    pub check: bool,

    /// Use this local address, for TCP too, and the device that has it. With two
    /// addresses of 127.0.0.0/8, such as 127.0.0.1 and 127.0.0.2, both ends can run
    /// on one machine
    #[arg(long, value_name = "IP", conflicts_with_all = ["device", "gid_index"])]
    pub address: Option<IpAddr>,

    /// Timeout in seconds: for the peer to appear, and for each later sign of
    /// life. By default a server waits for its client for ever, and all other
    /// timeouts are 10 seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Print only the result, as JSON
    #[arg(long)]
    pub json: bool,

    /// Options of ibv_rc_pingpong that a software device does not support.
    #[command(flatten)]
    pub unsupported: Unsupported,
}

/// The transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

impl From<Service> for QpKind {
    fn from(service: Service) -> Self {
        match service {
            Service::Rc => Self::Rc,
            Service::Uc => Self::Uc,
            Service::Ud => Self::Ud,
        }
    }
}

/// Options of ibv_rc_pingpong for hardware features: recognised and refused.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Unsupported {
    /// On-demand paging.
    #[arg(short = 'o', long, hide = true)]
    odp: bool,
    /// Implicit on-demand paging.
    #[arg(short = 'O', long, hide = true)]
    iodp: bool,
    /// Prefetching of an on-demand region.
    #[arg(short = 'P', long, hide = true)]
    prefetch: bool,
    /// Completion timestamps.
    #[arg(short = 't', long, hide = true)]
    ts: bool,
    /// Device memory.
    #[arg(short = 'j', long, hide = true)]
    dm: bool,
    /// The newer way to post sends.
    #[arg(short = 'N', long = "new_send", hide = true)]
    new_send: bool,
    /// Memory shared with the host of a confidential guest.
    #[arg(short = 'U', long, hide = true)]
    allow_cc_unprotected: bool,
}

impl Unsupported {
    /// The error message for the first of them that was given.
    pub(super) fn rejection(&self) -> Option<String> {
        let paging = "memory is reached through the process's own page table, so that on-demand \
                      paging has nothing to do";
        let refused = [
            (self.odp, "-o (--odp)", paging),
            (self.iodp, "-O (--iodp)", paging),
            (self.prefetch, "-P (--prefetch)", paging),
            (
                self.ts,
                "-t (--ts)",
                "completions carry no timestamp of a hardware clock",
            ),
            (
                self.dm,
                "-j (--dm)",
                "there is no memory on the device, only the machine's",
            ),
            (
                self.new_send,
                "-N (--new_send)",
                "it chooses between two C interfaces, and this program uses neither; what is \
                 sent would be the same",
            ),
            (
                self.allow_cc_unprotected,
                "-U (--allow-cc-unprotected)",
                "no device has to reach this process's memory from outside",
            ),
        ];
        let (_, option, why) = refused.into_iter().find(|(given, ..)| *given)?;
        Some(format!(
            "{option} makes no sense for a device in software: {why}. Leave it out; the other \
             end may use it"
        ))
    }
}

/// Parses a number, decimal or hexadecimal (0x...), as the original does.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn in_range<const MIN: u64, const MAX: u64>(text: &str) -> Result<u64, String> {
    match number(text) {
        Some(value) if (MIN..=MAX).contains(&value) => Ok(value),
        _ if MIN == MAX => Err(format!("must be {MIN}")),
        _ => Err(format!("must be a number from {MIN} to {MAX}")),
    }
}

/// A message's length (IBTA 1.7, 9.7.2).
fn bytes(text: &str) -> Result<usize, String> {
    let value = in_range::<0, 0x8000_0000>(text)?;
    usize::try_from(value).map_err(|error| error.to_string())
}

fn depth(text: &str) -> Result<usize, String> {
    let value = in_range::<1, 65_536>(text)?;
    usize::try_from(value).map_err(|error| error.to_string())
}

fn tcp_port(text: &str) -> Result<u16, String> {
    let value = in_range::<1, 65_535>(text)?;
    u16::try_from(value).map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|wait| !wait.is_zero() && *wait < Duration::from_secs(1 << 30))
        .ok_or_else(|| "must be a number of seconds above 0".to_owned())
}
