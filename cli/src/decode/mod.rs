//! `roce decode`: the RoCE packets of a capture file, one line each, and a summary
//! of each flow.
//!
//! ```text
//! file ─► Capture ─► Record ─► Decoder ─► RocePacket ─┬─► Lines or JSON
//!         pcap(ng)             link, gso, roce-wire   └─► FlowTable ─► Summary
//! ```
//!
//! Memory use is bounded, whatever the file contains, and no file makes it panic: see [`decode`].

use crate::error::Error;
use crate::words::parse_number;
use nix::sys::signal::{SigSet, Signal};
use roce_trust::output::{Stdout, say};
use std::fs::File;
use std::io::{self, BufWriter, LineWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod capture;
mod cm;
mod flow;
mod gso;
mod json;
mod kinds;
mod link;
mod packet;
mod progress;
mod refused;
mod summary;
mod text;
mod totals;
mod tunnel;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use capture::CaptureError;

use capture::{Capture, Record};
use flow::{FlowTable, MAX_FLOWS};
use packet::{Decoder, NotRoce, RocePacket};
use refused::Requests;
use summary::Summary;
use text::Lines;
use totals::Totals;

/// Arguments of `roce decode`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Columns: time in seconds since the first packet; FLAGS are \
    S solicited event, M migration, A acknowledge request, F FECN, B BECN; P is the pad \
    count; LEN the payload in bytes without padding; ICRC is ok, BAD, cut (packet not \
    captured in full) or none (no room for one); after a # comes the comment that the \
    file has for the packet.\n\n\
    With --json each line is an object whose \"type\" is packet, other (with --other) or, \
    on the last line, summary; docs/observe.md describes them. With several files, an object \
    of type file precedes those of each.\n\n\
    At most 65536 flows are tracked; packets of others count only in the totals.\n\n\
    Exit code: 0, or 1 if a file is broken or cannot be read (after what could be read \
    was printed), or 2 for wrong usage."
)]
pub struct DecodeArgs {
    /// Capture files, pcap or pcapng, each with a summary of its own; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print JSON lines: an object for each packet, then one for the summary
    #[arg(long)]
    pub json: bool,

    /// Print the summary only
    #[arg(short, long)]
    pub summary: bool,

    /// Also print a line for each packet that is not RoCE
    #[arg(long, conflicts_with = "summary")]
    pub other: bool,

    /// Also decode packets to this UDP port as RoCE, besides port 4791; may be repeated
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,

    /// Only packets to this queue pair, or from it if they carry the source (UD): decimal, or
    /// hexadecimal with 0x; may be repeated
    #[arg(long, value_name = "QPN", value_parser = parse_qpn)]
    pub qpn: Vec<u32>,

    /// Stop after N packets of the file
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Print the N busiest flows in the summary (--json has all)
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub flows: usize,

    /// Also track sequence numbers and messages of packets with a wrong ICRC
    #[arg(long)]
    pub ignore_icrc: bool,
}

/// Parses a queue pair number in the users' syntax.
fn parse_qpn(text: &str) -> Result<u32, String> {
    parse_number(text)
        .filter(|&qpn| qpn <= 0xff_ffff)
        .ok_or_else(|| "expected 0 to 16777215, or 0x0 to 0xffffff".into())
}

/// Runs `roce decode` and returns its exit code, which is 1 if a file could not be read completely. Errors
/// in files go to stderr.
///
/// # Errors
/// If standard output can't be written. A closed pipe is not an error.
pub(crate) fn run(args: &DecodeArgs) -> Result<ExitCode, Error> {
    let mut code = ExitCode::SUCCESS;
    for (index, path) in args.files.iter().enumerate() {
        let name = path.display();
        let broken = match Input::open(path) {
            Ok(input) => match print_one(args, index, path, input) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                printed => printed?.map(|broken| format!("{name}: {broken}")),
            },
            Err(error) => Some(format!("cannot open {name}: {error}")),
        };
        if let Some(broken) = broken {
            say("roce decode", broken);
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}

/// A file that is open.
struct Input {
    file: Box<dyn Read>,
    is_stdin: bool,
    /// In bytes; 0 for standard input.
    len: u64,
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            outlive_writer_of_stdin()?;
            return Ok(Self {
                file: Box::new(io::stdin().lock()),
                is_stdin: true,
                len: 0,
            });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self {
            file: Box::new(file),
            is_stdin: false,
            len: metadata.len(),
        })
    }
}

/// Leaves the first Ctrl-C to the program that writes to standard input, if that is a pipe: its last packets
/// and the summary follow. The second Ctrl-C ends this process.
fn outlive_writer_of_stdin() -> io::Result<()> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if !stdin.metadata()?.file_type().is_fifo() {
        return Ok(());
    }
    let interrupt = SigSet::from(Signal::SIGINT);
    interrupt.thread_block()?;
    std::thread::spawn(move || {
        if interrupt.wait().is_ok() && interrupt.wait().is_ok() {
            // As a shell reports a process that SIGINT has killed.
            std::process::exit(128 + Signal::SIGINT as i32);
        }
    });
    Ok(())
}

/// Prints file number `index`, after a heading if there are several. Returns the error in the file, if there
/// is one.
fn print_one(
    args: &DecodeArgs,
    index: usize,
    path: &Path,
    input: Input,
) -> io::Result<Option<CaptureError>> {
    let stdout = Stdout::lock();
    // A pipe may deliver slowly, and a user may be watching.
    let mut out: Box<dyn Write> = if input.is_stdin || stdout.is_terminal() {
        Box::new(LineWriter::new(stdout))
    } else {
        Box::new(BufWriter::with_capacity(256 << 10, stdout))
    };
    if args.files.len() > 1 {
        let name = path.to_string_lossy();
        match (args.json, index) {
            (true, _) => json::write_line(&json::file(&name), &mut out)?,
            (false, 0) => writeln!(out, "{}:", name.escape_debug())?,
            (false, _) => writeln!(out, "\n{}:", name.escape_debug())?,
        }
    }
    let bar = progress::bar(input.len, !args.summary);
    let result = decode(input.file, args, out, |offset| bar.set_position(offset));
    bar.finish_and_clear();
    result
}

/// Decodes a capture, writes to `out` according to `args`, and calls `progress` with the offset in
/// the file from time to time. Ignores `args.files`.
///
/// Uses a few MiB of memory, and at most some 100 MiB for a capture of very many flows. Returns the
/// error in the capture, if there is one.
///
/// # Errors
/// The errors of `out`.
pub fn decode(
    input: impl Read,
    args: &DecodeArgs,
    out: impl Write,
    mut progress: impl FnMut(u64),
) -> io::Result<Option<CaptureError>> {
    let mut session = Session::new(args, out);
    let broken = session.read_all(input, &mut progress)?;
    session.finish(broken.as_ref())?;
    Ok(broken)
}

/// A capture being decoded.
struct Session<'a, W> {
    args: &'a DecodeArgs,
    out: W,
    totals: Totals,
    flows: FlowTable,
    requests: Requests,
    lines: Lines,
}

/// Records between two calls of the progress function.
const PROGRESS_EVERY: u64 = 4096;

impl<'a, W: Write> Session<'a, W> {
    fn new(args: &'a DecodeArgs, out: W) -> Self {
        Self {
            args,
            out,
            totals: Totals::default(),
            flows: FlowTable::new(MAX_FLOWS),
            requests: Requests::default(),
            lines: Lines::default(),
        }
    }

    /// Reads records until the end, the limit or an error, which it returns.
    fn read_all(
        &mut self,
        input: impl Read,
        progress: &mut impl FnMut(u64),
    ) -> io::Result<Option<CaptureError>> {
        let mut capture = match Capture::open(input) {
            Ok(capture) => capture,
            Err(error) => return Ok(Some(error)),
        };
        let mut decoder = Decoder::new(&self.args.port);
        loop {
            match capture.next() {
                Ok(Some(record)) => {
                    if self.record(&record, &mut decoder)?.is_break() {
                        return Ok(None);
                    }
                }
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error)),
            }
            if self.totals.records.is_multiple_of(PROGRESS_EVERY) {
                progress(capture.offset());
            }
        }
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        decoder: &mut Decoder,
    ) -> io::Result<ControlFlow<()>> {
        self.totals.count_record(record.time, record.wire_len);
        let number = self.totals.records;
        let other = decoder.decode(record, number, |packet| self.packet(packet))?;
        if let Some(other) = other {
            self.other(record, &other)?;
        }
        Ok(match self.args.count {
            Some(limit) if number >= limit => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    }

    fn packet(&mut self, packet: &RocePacket) -> io::Result<()> {
        // A NAK that is shown may refuse a request that is not.
        let refused = self.requests.take(packet, self.args.ignore_icrc);
        if !self.is_wanted(packet) {
            self.totals.filtered += 1;
            return Ok(());
        }
        self.totals.count(packet);
        self.flows.add(packet, self.args.ignore_icrc);
        match (self.args.summary, self.args.json) {
            (true, _) => Ok(()),
            (false, true) => {
                let value = json::packet(packet, refused.as_ref());
                json::write_line(&value, &mut self.out)
            }
            (false, false) => self.lines.packet(packet, refused.as_ref(), &mut self.out),
        }
    }

    fn other(&mut self, record: &Record<'_>, other: &NotRoce) -> io::Result<()> {
        self.totals.other.count(other);
        let number = self.totals.records;
        match (self.args.other, self.args.json) {
            (false, _) => Ok(()),
            (true, true) => {
                let value = json::other(number, record, other);
                json::write_line(&value, &mut self.out)
            }
            (true, false) => self.lines.other(number, record, other, &mut self.out),
        }
    }

    /// Whether the packet passes the filters.
    fn is_wanted(&self, packet: &RocePacket) -> bool {
        let wanted = &self.args.qpn;
        let to = packet.bth.map(|bth| bth.dest_qpn);
        let from = packet.ext.deth.map(|deth| deth.src_qpn);
        let mut named = to.into_iter().chain(from);
        wanted.is_empty() || named.any(|qpn| wanted.contains(&qpn.get()))
    }

    fn finish(&mut self, error: Option<&CaptureError>) -> io::Result<()> {
        let summary = Summary {
            totals: &self.totals,
            flows: &self.flows,
            error,
            shown: self.args.flows,
        };
        if self.args.json {
            json::write_line(&summary, &mut self.out)?;
        } else {
            if self.totals.packets > 0 && !self.args.summary {
                writeln!(self.out)?;
            }
            summary.write_text(&mut self.out)?;
        }
        self.out.flush()
    }
}
