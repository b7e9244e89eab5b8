//! Packets from a source other than a file, printed as they arrive.

use std::io::{self, Write};

use super::capture::{Comments, Record, Timestamp};
use super::packet::Decoder;
use super::{DecodeArgs, Session};

/// Prints packets as `roce decode` does.
pub(crate) struct Live<'a, W> {
    session: Session<'a, W>,
    decoder: Decoder,
}

impl<'a, W: Write> Live<'a, W> {
    /// Prints to `out` according to `args`. Ignores the arguments that name a file and limit the
    /// number of packets.
    pub(crate) fn new(args: &'a DecodeArgs, out: W) -> Self {
        Self {
            session: Session::new(args, out),
            decoder: Decoder::new(&args.port),
        }
    }

    /// Prints a packet that arrived `time_ns` nanoseconds after 1970-01-01 00:00 UTC.
    ///
    /// # Errors
    /// The output's errors.
    pub(crate) fn packet(&mut self, time_ns: i128, link_type: u16, bytes: &[u8]) -> io::Result<()> {
        let record = Record {
            time: Some(Timestamp::from_ns(time_ns)),
            link_type,
            wire_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            data: bytes,
            comments: Comments::NONE,
        };
        self.session.record(&record, &mut self.decoder).map(drop)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The output's errors.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.session.out.flush()
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// The output's errors.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.session.finish(None)
    }
}
