//! Capture files: pcap and pcapng, read as a stream, one record at a time.
//!
//! Both formats are read here rather than by a library. A file may be broken or hostile in any way,
//! and the user then needs the offset, the field and the limit. No length in a file may determine
//! how much memory is used. Memory use is bounded by [`MAX_BLOCK`] and [`pcapng::MAX_INTERFACES`].

use std::io::Read;

mod comments;
mod error;
mod pcap;
mod pcapng;
mod reader;
mod time;

#[cfg(test)]
mod tests;

pub(super) use comments::Comments;
pub use error::CaptureError;
pub(super) use time::{Seconds, Timestamp};

use error::CaptureErrorKind;
use reader::CountedReader;

/// The longest record to accept, in bytes: the largest snapshot length of libpcap.
pub(super) const MAX_RECORD: usize = 256 << 10;

/// The longest pcapng block, in bytes, that is read as a whole. Blocks that hold
/// neither packets nor interfaces are skipped at any length.
const MAX_BLOCK: usize = 1 << 20;

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// When it was captured, if the file has a time.
    pub(super) time: Option<Timestamp>,
    /// The link type, which determines the first header of `data`.
    pub(super) link_type: u16,
    /// Length of the packet on the wire, in bytes.
    pub(super) wire_len: u32,
    /// The bytes that were captured.
    pub(super) data: &'a [u8],
    pub(super) comments: Comments<'a>,
}

/// A capture file that is being read.
#[derive(Debug)]
pub(super) struct Capture<R> {
    reader: CountedReader<R>,
    format: Format,
    /// The current record or block.
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Header),
    Pcapng(pcapng::Section),
}

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
    /// Reads the header of a capture file.
    pub(super) fn open(input: R) -> Result<Self, CaptureError> {
        let mut reader = CountedReader::new(input);
        let magic: [u8; 4] = reader.array("the file's first four bytes")?;
        let format = if magic == pcapng::MAGIC {
            Format::Pcapng(pcapng::Section::open(&mut reader)?)
        } else if let Some(kind) = pcap::Kind::from_magic(magic) {
            Format::Pcap(pcap::Header::open(kind, &mut reader)?)
        } else {
            return Err(CaptureError::new(0, CaptureErrorKind::Magic(magic)));
        };
        Ok(Self {
            reader,
            format,
            buffer: Vec::new(),
        })
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is broken here, so that the start of the next record is unknown.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        match &mut self.format {
            Format::Pcap(header) => header.next(&mut self.reader, &mut self.buffer),
            Format::Pcapng(section) => section.next(&mut self.reader, &mut self.buffer),
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.reader.offset()
    }
}

/// Takes the first `N` bytes off `rest`. Returns zeros if it is shorter, which callers rule out.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk() {
        Some((chunk, after)) => {
            *rest = after;
            *chunk
        }
        None => [0; N],
    }
}
