//! Packets that come from elsewhere than a file, printed as they come.

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
    /// Prints what `args` ask for to `out`. Of the arguments, those that name a file and
    /// count packets are not looked at.
    pub(crate) fn new(args: &'a DecodeArgs, out: W) -> Self {
        Self {
            session: Session::new(args, out),
            decoder: Decoder::new(&args.port),
        }
    }

    /// Prints a packet that came so many nanoseconds after 1970 began.
    ///
    /// # Errors
    /// Those of the output.
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

    /// Brings what was printed to whom it is for.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.session.out.flush()
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.session.finish(None)
    }
}
