//! The destination of packets: a file, or lines on standard output.

use super::DumpError;
use super::socket::CapturedPacket;
use crate::decode::{DecodeArgs, Live};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_capture::{Capture, Direction, Interface, InterfaceId, LinkType, Packet};
use roce_trust::output::Stdout;
use std::io::{self, BufWriter, ErrorKind};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The name by which a capture goes to standard output.
const STDOUT: &str = "/dev/stdout";

/// The destination.
pub(super) enum Output<'a> {
    File(Capture, InterfaceId),
    Lines(Box<Live<'a, BufWriter<Stdout>>>),
}

impl<'a> Output<'a> {
    pub(super) fn file(
        path: &Path,
        interface: &str,
        link_type: LinkType,
    ) -> Result<Self, DumpError> {
        let capture = match path.as_os_str() == "-" {
            true if io::IsTerminal::is_terminal(&io::stdout()) => return Err(DumpError::Terminal),
            true => Capture::replace(STDOUT)?,
            false => Capture::replace(path)?,
        };
        let id = capture.add_interface(&Interface {
            name: interface,
            description: "RoCE packets that passed the interface",
            link_type,
        });
        Ok(Self::File(capture, id))
    }

    pub(super) fn lines(args: &'a DecodeArgs) -> Self {
        let out = BufWriter::new(Stdout::lock());
        Self::Lines(Box::new(Live::new(args, out)))
    }

    /// Writes one packet as it was on the wire. `bytes` are those of `captured`, or of a segment.
    pub(super) fn packet(
        &mut self,
        link_type: u16,
        captured: &CapturedPacket<'_>,
        bytes: &[u8],
    ) -> io::Result<()> {
        match self {
            Self::File(capture, interface) => {
                let is_part = bytes.len() != captured.bytes.len();
                capture.packet(&Packet {
                    interface: *interface,
                    time: captured.time,
                    direction: match captured.sent {
                        true => Direction::Sent,
                        false => Direction::Received,
                    },
                    bytes,
                    wire_len: if is_part {
                        bytes.len()
                    } else {
                        captured.wire_len
                    },
                    comments: &[],
                });
                Ok(())
            }
            Self::Lines(lines) => {
                let since = captured.time.duration_since(UNIX_EPOCH).unwrap_or_default();
                let ns = i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
                lines.packet(ns, link_type, bytes)
            }
        }
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> Result<(), DumpError> {
        match self {
            Self::File(capture, _) => {
                capture.flush();
                match capture.failure() {
                    Some(_) if capture.path() == Path::new(STDOUT) && reader_has_gone() => {
                        Err(stdout_error(ErrorKind::BrokenPipe.into()))
                    }
                    Some(_) => Err(DumpError::Write),
                    None => Ok(()),
                }
            }
            Self::Lines(lines) => lines.flush().map_err(stdout_error),
        }
    }

    /// Finishes the output; adds a summary if lines were printed.
    pub(super) fn finish(&mut self) -> Result<(), DumpError> {
        self.flush()?;
        match self {
            Self::File(..) => Ok(()),
            Self::Lines(lines) => lines.finish().map_err(stdout_error),
        }
    }
}

/// Whether standard output is a pipe or socket without a reader.
fn reader_has_gone() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    matches!(poll(&mut polled, PollTimeout::ZERO), Ok(1))
        && polled[0]
            .revents()
            .is_some_and(|found| found.contains(PollFlags::POLLERR))
}

pub(super) fn stdout_error(source: io::Error) -> DumpError {
    DumpError::System {
        what: "printing packets".to_owned(),
        source,
    }
}
