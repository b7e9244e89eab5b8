//! `roce dump`: the RoCE packets that pass an interface, to a capture file or as lines.
//!
//! ```text
//! packet socket, filtered in the kernel ─► Splitter ─┬─► capture file
//!                                       super-packets └─► lines, as of `roce decode`
//! ```

mod error;
mod filter;
mod output;
mod socket;

pub use error::DumpError;

use crate::decode::{DecodeArgs, Splitter, parse_qpn};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use output::{Output, stdout_error};
use roce_capture::LinkType;
use roce_trust::output::say;
use roce_verbs::device::interfaces;
use socket::PacketSocket;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Output is flushed after this many packets, even if more wait.
const BATCH: usize = 64;

/// Arguments of `roce dump`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  roce dump -i eth0                      a line for each packet, then a summary of each flow
  roce dump -i eth0 -w roce.pcapng       a file for Wireshark, tshark or roce decode
  roce dump -i eth0 -c 1000 --seconds 5  at most 1000 packets, for at most 5 s
  roce dump -i eth0 -w - | tshark -r -   into another program

It captures packets to UDP port 4791 (RoCEv2) and of EtherType 0x8915 (RoCE v1), over IPv4 and
IPv6, with or without VLAN tags; a filter in the kernel drops all others. It needs CAP_NET_RAW.
Ctrl-C ends it.

Packets that the kernel carries as one (UDP_SEGMENT, UDP_GRO) are split into those on the wire.
Packets that a device receives over AF_XDP do not pass here: ROCE_PCAP=FILE captures the packets
of a program's own devices, needs no privilege, and records what became of each
(docs/observe.md).

Exit code: 0, or 1 if the capture fails, or 2 for wrong usage.")]
pub struct DumpArgs {
    /// Interface (eth0) or RoCE device (roce_eth0)
    #[arg(short, long, value_name = "NAME")]
    pub interface: String,

    /// Write a pcapng file, replacing an existing one; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// End after N packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// End after SECONDS
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub seconds: Option<u64>,

    /// Print JSON lines, as roce decode does
    #[arg(long, conflicts_with = "write")]
    pub json: bool,

    /// Print the summary only
    #[arg(long, conflicts_with = "write")]
    pub summary: bool,

    /// Print only packets to this queue pair, or from it if they carry the source (UD): decimal,
    /// or hexadecimal with 0x; may be repeated
    #[arg(long, value_name = "QPN", value_parser = parse_qpn, conflicts_with = "write")]
    pub qpn: Vec<u32>,
}

impl DumpArgs {
    /// The corresponding arguments of `roce decode`.
    fn decode(&self) -> DecodeArgs {
        DecodeArgs {
            files: Vec::new(),
            json: self.json,
            summary: self.summary,
            other: false,
            port: Vec::new(),
            qpn: self.qpn.clone(),
            count: None,
            flows: 50,
            ignore_icrc: false,
        }
    }
}

/// Runs `roce dump` until it reaches its end or a signal stops it.
///
/// # Errors
/// See [`DumpError`]. A closed pipe is not an error.
pub fn run(args: &DumpArgs) -> Result<ExitCode, DumpError> {
    let system = |what: &str| {
        let what = what.to_owned();
        move |error: nix::Error| DumpError::System {
            what,
            source: error.into(),
        }
    };
    // From here on these signals end the loop, so that the output is flushed.
    let ends = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    ends.thread_block().map_err(system("blocking signals"))?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(system("making a signalfd"))?;

    let (name, socket) = open(&args.interface)?;
    let decode = args.decode();
    let output = match &args.write {
        Some(path) => Output::file(path, &name, socket.link_type())?,
        None => Output::lines(&decode),
    };
    let mut dump = Dump {
        link_type: link_type_number(socket.link_type()),
        socket,
        output,
        splitter: Splitter::default(),
        count: 0,
        limit: args.count.unwrap_or(u64::MAX),
        end: None,
    };
    say(
        "roce dump",
        format_args!("listening on {name}, Ctrl-C ends it"),
    );
    let deadline = args
        .seconds
        .and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    match dump
        .receive_all(&signals, deadline)
        .and_then(|()| dump.output.finish())
    {
        Err(DumpError::System { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        result => result?,
    }
    let (count, lost) = (dump.count, dump.socket.lost());
    say(
        "roce dump",
        format_args!("{count} packets, {lost} lost because the kernel had no room for them"),
    );
    Ok(ExitCode::SUCCESS)
}

/// Opens a socket on the interface that the user named.
fn open(wanted: &str) -> Result<(String, PacketSocket), DumpError> {
    let all = interfaces().map_err(|error| DumpError::System {
        what: format!("finding {wanted}"),
        source: io::Error::other(error),
    })?;
    let device = wanted.strip_prefix("roce_");
    let named = |name: &str| all.iter().find(|interface| interface.name == name);
    let Some(interface) = named(wanted).or_else(|| device.and_then(named)) else {
        return Err(DumpError::UnknownInterface {
            name: wanted.to_owned(),
            known: all.into_iter().map(|interface| interface.name).collect(),
        });
    };
    let name = interface.name.clone();
    match PacketSocket::open(interface.index) {
        Ok(Ok(socket)) => Ok((name, socket)),
        Ok(Err(hardware)) => Err(DumpError::LinkType { name, hardware }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(DumpError::Privilege),
        Err(source) => Err(DumpError::System {
            what: format!("opening a packet socket on {name}"),
            source,
        }),
    }
}

/// The number of a link type in capture files.
fn link_type_number(link_type: LinkType) -> u16 {
    match link_type {
        LinkType::Ethernet => 1,
        LinkType::RawIp => 101,
        LinkType::Other(number) => number,
    }
}

/// An interface that is captured.
struct Dump<'a> {
    socket: PacketSocket,
    link_type: u16,
    output: Output<'a>,
    splitter: Splitter,
    /// The number of packets so far, and the limit.
    count: u64,
    limit: u64,
    /// Packets with a later time are ignored.
    end: Option<SystemTime>,
}

impl Dump<'_> {
    /// Receives packets until the limit, the deadline or a signal.
    fn receive_all(
        &mut self,
        signals: &SignalFd,
        deadline: Option<Instant>,
    ) -> Result<(), DumpError> {
        loop {
            let more = self.receive_batch()?;
            self.output.flush()?;
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if self.count >= self.limit {
                return Ok(());
            }
            if left == Some(Duration::ZERO) {
                return self.receive_rest();
            }
            // Check for signals after each batch, even if packets never stop.
            let wait = match (more, left) {
                (true, _) => PollTimeout::ZERO,
                (false, None) => PollTimeout::NONE,
                (false, Some(left)) => {
                    let ms = left.as_nanos().div_ceil(1_000_000);
                    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
                }
            };
            let mut fds = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.socket.fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, wait) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => {
                    return Err(DumpError::System {
                        what: "waiting for packets".to_owned(),
                        source: error.into(),
                    });
                }
            }
            if fds[0].any() == Some(true) {
                return self.receive_rest();
            }
        }
    }

    /// Receives the packets that passed the interface before now and still wait.
    fn receive_rest(&mut self) -> Result<(), DumpError> {
        self.end = Some(SystemTime::now());
        while self.receive_batch()? {
            self.output.flush()?;
        }
        Ok(())
    }

    /// Receives the packets that have arrived, up to a limit. Returns whether more may wait.
    fn receive_batch(&mut self) -> Result<bool, DumpError> {
        let Self {
            socket,
            link_type,
            output,
            splitter,
            count,
            limit,
            end,
        } = self;
        for _ in 0..BATCH {
            let received = socket.receive().map_err(|source| DumpError::System {
                what: "receiving from the interface".to_owned(),
                source,
            })?;
            let captured = match received {
                None => return Ok(false),
                Some(None) => continue,
                Some(Some(captured)) if end.is_some_and(|end| captured.time > end) => {
                    return Ok(false);
                }
                Some(Some(captured)) => captured,
            };
            let mut result = Ok(());
            splitter.split(*link_type, captured.bytes, |bytes| {
                if *count < *limit && result.is_ok() {
                    *count += 1;
                    result = output.packet(*link_type, &captured, bytes);
                }
            });
            result.map_err(stdout_error)?;
            if *count >= *limit {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
