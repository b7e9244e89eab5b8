//! Capture files: pcap and pcapng, read as a stream, one record after the other.
//!
//! Both formats are read here and not by a library: a file may be broken or hostile
//! in any way, and what a user needs then is the offset, the field and the limit;
//! and no length in a file may decide how much memory is taken. Memory use is
//! bounded by [`MAX_BLOCK`] and [`pcapng::MAX_INTERFACES`].

use std::io::Read;

mod comments;
mod error;
mod pcap;
mod pcapng;
mod source;
mod time;

#[cfg(test)]
mod tests;

pub(super) use comments::Comments;
pub use error::CaptureError;
pub(super) use time::{Seconds, Timestamp};

use error::Fault;
use source::Source;

/// The longest record, in bytes, that is taken for one: the largest snapshot length
/// of libpcap.
pub(super) const MAX_RECORD: usize = 256 << 10;

/// The longest pcapng block, in bytes, that is read as a whole. Blocks that hold
/// neither packets nor interfaces are skipped at any length.
const MAX_BLOCK: usize = 1 << 20;

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// When it was captured, if the file says so.
    pub(super) time: Option<Timestamp>,
    /// What its bytes start with.
    pub(super) link_type: u16,
    /// Bytes of the packet on the wire.
    pub(super) wire_len: u32,
    /// What was kept of them.
    pub(super) data: &'a [u8],
    /// What the file says of it in words.
    pub(super) comments: Comments<'a>,
}

/// A capture file that is being read.
#[derive(Debug)]
pub(super) struct Capture<R> {
    source: Source<R>,
    format: Format,
    /// The record or block at hand.
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Header),
    Pcapng(pcapng::Section),
}

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Endian::Little => i64::from_le_bytes(bytes),
            Endian::Big => i64::from_be_bytes(bytes),
        }
    }
}

impl<R: Read> Capture<R> {
    /// Reads the head of a capture file.
    ///
    /// # Errors
    /// It is none, or one of a kind that is not supported.
    pub(super) fn open(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let magic: [u8; 4] = source.array("the file's first four bytes")?;
        let format = if magic == pcapng::MAGIC {
            Format::Pcapng(pcapng::Section::open(&mut source)?)
        } else if let Some(kind) = pcap::Kind::from_magic(magic) {
            Format::Pcap(pcap::Header::open(kind, &mut source)?)
        } else {
            return Err(CaptureError::new(0, Fault::Magic(magic)));
        };
        Ok(Self {
            source,
            format,
            buffer: Vec::new(),
        })
    }

    /// The next packet, or nothing at the end of the file.
    ///
    /// # Errors
    /// The file is broken here, and where the next record starts can't be known.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        match &mut self.format {
            Format::Pcap(header) => header.next(&mut self.source, &mut self.buffer),
            Format::Pcapng(section) => section.next(&mut self.source, &mut self.buffer),
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.source.offset()
    }
}

/// The first `N` bytes of `rest`, which are taken off it, or zeros if it is shorter:
/// callers have made sure that it is not.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk() {
        Some((chunk, after)) => {
            *rest = after;
            *chunk
        }
        None => [0; N],
    }
}
