//! The classic format: a file header, then records, each with a header of 16 bytes.

use std::io::Read;

use super::error::CaptureError;
use super::reader::CountedReader;
use super::{Comments, Endian, MAX_RECORD, Record, Timestamp, take};
use crate::decode::link;

/// The information in the magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    endian: Endian,
    /// Nanoseconds in a unit of the fraction of a second.
    unit_ns: u32,
}

impl Kind {
    pub(super) fn from_magic(magic: [u8; 4]) -> Option<Kind> {
        let (endian, unit_ns) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (Endian::Little, 1000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (Endian::Big, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Endian::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Endian::Big, 1),
            _ => return None,
        };
        Some(Kind { endian, unit_ns })
    }
}

/// The properties of all records of a file.
#[derive(Debug)]
pub(super) struct Header {
    kind: Kind,
    link_type: u16,
}

impl Header {
    /// Reads the file header after the magic number.
    pub(super) fn open<R: Read>(
        kind: Kind,
        reader: &mut CountedReader<R>,
    ) -> Result<Self, CaptureError> {
        let endian = kind.endian;
        let rest: [u8; 20] = reader.array("the file header")?;
        let mut rest = &rest[..];
        let major = endian.u16(take(&mut rest));
        if major != 2 {
            return Err(CaptureError::field(4, "major version", major, "2"));
        }
        // Minor version, time zone, accuracy and snapshot length are not needed.
        let _: [u8; 14] = take(&mut rest);
        // The upper bits say whether frames end with a check sequence. That does not matter: the
        // lengths in the headers count.
        let link_type = endian.u32(take(&mut rest)) as u16;
        if !link::is_supported(link_type) {
            return Err(CaptureError::field(
                20,
                "link type",
                link_type,
                link::SUPPORTED,
            ));
        }
        Ok(Self { kind, link_type })
    }

    pub(super) fn next<'a, R: Read>(
        &self,
        reader: &mut CountedReader<R>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<Record<'a>>, CaptureError> {
        if reader.at_end()? {
            return Ok(None);
        }
        let start = reader.offset();
        let endian = self.kind.endian;
        let header: [u8; 16] = reader.array("a record header")?;
        let mut rest = &header[..];
        let sec = endian.u32(take(&mut rest));
        let fraction = endian.u32(take(&mut rest));
        let captured = endian.u32(take(&mut rest)) as usize;
        let wire_len = endian.u32(take(&mut rest));
        if captured > MAX_RECORD {
            return Err(CaptureError::field(
                start + 8,
                "captured length of a record",
                captured as u64,
                format!("at most {MAX_RECORD}"),
            ));
        }
        buffer.resize(captured, 0);
        reader.fill(buffer, "a packet")?;
        let ns = i128::from(fraction) * i128::from(self.kind.unit_ns);
        Ok(Some(Record {
            time: Some(Timestamp::new(sec.into(), ns)),
            link_type: self.link_type,
            wire_len,
            data: buffer,
            comments: Comments::NONE,
        }))
    }
}
