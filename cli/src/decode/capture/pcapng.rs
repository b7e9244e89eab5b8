//! The next-generation format: sections of blocks. Only the blocks that describe interfaces or hold
//! packets matter here.

use std::io::Read;

use super::error::CaptureError;
use super::reader::CountedReader;
use super::time::Resolution;
use super::{Comments, Endian, MAX_BLOCK, MAX_RECORD, Record, Timestamp, take};

/// The first bytes of a file: the type of a section header block, which is the same
/// in both byte orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The most interfaces of a section.
pub(super) const MAX_INTERFACES: usize = 1 << 16;

const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block besides its body: type, length, and the length again.
const FRAMING: u32 = 12;

/// Options of an interface.
const OPTION_END: u16 = 0;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;

/// The current section.
#[derive(Debug)]
pub(super) struct Section {
    endian: Endian,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Longest packet kept, in bytes; 0 means any.
    snap_len: u32,
    resolution: Resolution,
    /// Seconds to add to all times.
    offset_sec: i64,
}

/// A packet as a block describes it.
struct Packet {
    interface: u32,
    ticks: Option<u64>,
    captured: u32,
    wire_len: u32,
    /// Offset of its bytes in the body.
    at: usize,
}

impl Section {
    /// Reads a section header block after its type.
    pub(super) fn open<R: Read>(reader: &mut CountedReader<R>) -> Result<Self, CaptureError> {
        const WHAT: &str = "a section header block";
        let start = reader.offset() - 4;
        let length: [u8; 4] = reader.array(WHAT)?;
        let order: [u8; 4] = reader.array(WHAT)?;
        let endian = match order {
            [0x4d, 0x3c, 0x2b, 0x1a] => Endian::Little,
            [0x1a, 0x2b, 0x3c, 0x4d] => Endian::Big,
            other => {
                return Err(CaptureError::field(
                    start + 8,
                    "byte-order magic",
                    u32::from_be_bytes(other),
                    "0x1a2b3c4d in either order",
                ));
            }
        };
        let length = endian.u32(length);
        let body = body_len(start, length, 16)?;
        let version: [u8; 4] = reader.array(WHAT)?;
        let major = endian.u16([version[0], version[1]]);
        if major != 1 {
            return Err(CaptureError::field(start + 12, "major version", major, "1"));
        }
        // The section's length and options are not needed.
        reader.skip(u64::from(body - 8), WHAT)?;
        check_trailer(start, length, endian, reader)?;
        Ok(Self {
            endian,
            interfaces: Vec::new(),
        })
    }

    pub(super) fn next<'a, R: Read>(
        &mut self,
        reader: &mut CountedReader<R>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<Record<'a>>, CaptureError> {
        loop {
            if reader.at_end()? {
                return Ok(None);
            }
            let start = reader.offset();
            let kind: [u8; 4] = reader.array("a block header")?;
            if kind == MAGIC {
                *self = Section::open(reader)?;
                continue;
            }
            let endian = self.endian;
            let length = endian.u32(reader.array("a block header")?);
            let packet = match endian.u32(kind) {
                INTERFACE => {
                    read_body(start, length, 8, endian, reader, buffer)?;
                    self.add_interface(start, buffer)?;
                    continue;
                }
                ENHANCED_PACKET => {
                    read_body(start, length, 20, endian, reader, buffer)?;
                    enhanced(endian, buffer)
                }
                OBSOLETE_PACKET => {
                    read_body(start, length, 20, endian, reader, buffer)?;
                    obsolete(endian, buffer)
                }
                SIMPLE_PACKET => {
                    read_body(start, length, 4, endian, reader, buffer)?;
                    self.simple(endian, buffer)
                }
                _ => {
                    let body = body_len(start, length, 0)?;
                    reader.skip(body.into(), "a block")?;
                    check_trailer(start, length, endian, reader)?;
                    continue;
                }
            };
            return self.record(start, &packet, buffer).map(Some);
        }
    }

    fn record<'a>(
        &self,
        start: u64,
        packet: &Packet,
        body: &'a [u8],
    ) -> Result<Record<'a>, CaptureError> {
        let Some(interface) = self.interfaces.get(packet.interface as usize) else {
            return Err(CaptureError::field(
                start + 8,
                "interface of a packet",
                packet.interface,
                format!("less than the {} described", self.interfaces.len()),
            ));
        };
        let captured = packet.captured as usize;
        let data = body[packet.at..].get(..captured);
        let Some(data) = data.filter(|data| data.len() <= MAX_RECORD) else {
            return Err(CaptureError::field(
                start,
                "captured length of a packet",
                packet.captured,
                format!("at most {}", (body.len() - packet.at).min(MAX_RECORD)),
            ));
        };
        // Simple packets end with padding, which contains no option.
        let options = body.get(packet.at + captured.next_multiple_of(4)..);
        let options = options.unwrap_or_default();
        let time = packet
            .ticks
            .map(|ticks| Timestamp::new(interface.offset_sec, interface.resolution.to_ns(ticks)));
        Ok(Record {
            time,
            link_type: interface.link_type,
            wire_len: packet.wire_len,
            data,
            comments: Comments::new(options, self.endian),
        })
    }

    /// A simple packet has no time, belongs to the first interface, and is as long as the snapshot
    /// length allows.
    fn simple(&self, endian: Endian, body: &[u8]) -> Packet {
        let mut rest = body;
        let wire_len = endian.u32(take(&mut rest));
        let snap_len = match self.interfaces.first() {
            Some(&Interface {
                snap_len: n @ 1.., ..
            }) => n,
            _ => u32::MAX,
        };
        Packet {
            interface: 0,
            ticks: None,
            captured: wire_len.min(snap_len),
            wire_len,
            at: 4,
        }
    }

    /// Reads the body of an interface description block.
    fn add_interface(&mut self, start: u64, body: &[u8]) -> Result<(), CaptureError> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(CaptureError::field(
                start,
                "interfaces of a section",
                MAX_INTERFACES as u64 + 1,
                format!("at most {MAX_INTERFACES}"),
            ));
        }
        let endian = self.endian;
        let mut rest = body;
        let link_type = endian.u16(take(&mut rest));
        let _reserved: [u8; 2] = take(&mut rest);
        let mut interface = Interface {
            link_type,
            snap_len: endian.u32(take(&mut rest)),
            resolution: Resolution::MICROSECONDS,
            offset_sec: 0,
        };
        while rest.len() >= 4 {
            let at = start + 8 + (body.len() - rest.len()) as u64;
            let code = endian.u16(take(&mut rest));
            let len = endian.u16(take(&mut rest));
            let Some(value) = rest.get(..len.into()) else {
                return Err(option_len(
                    at,
                    "length of an interface's option",
                    len.into(),
                    format!("at most {}", rest.len()),
                ));
            };
            match code {
                OPTION_END => break,
                _ => interface.set(endian, code, value, at)?,
            }
            rest = &rest[value.len().next_multiple_of(4).min(rest.len())..];
        }
        self.interfaces.push(interface);
        Ok(())
    }
}

impl Interface {
    /// Applies the option at offset `at`.
    fn set(
        &mut self,
        endian: Endian,
        code: u16,
        value: &[u8],
        at: u64,
    ) -> Result<(), CaptureError> {
        match (code, value) {
            (OPTION_TSRESOL, &[resolution]) => self.resolution = Resolution(resolution),
            (OPTION_TSRESOL, _) => {
                return Err(option_len(at, "length of if_tsresol", value.len(), "1"));
            }
            (OPTION_TSOFFSET, _) => match value.try_into() {
                Ok(bytes) => self.offset_sec = endian.i64(bytes),
                Err(_) => return Err(option_len(at, "length of if_tsoffset", value.len(), "8")),
            },
            _ => {}
        }
        Ok(())
    }
}

/// The error for an option at offset `at` with a wrong length.
fn option_len(
    at: u64,
    field: &'static str,
    found: usize,
    expected: impl Into<String>,
) -> CaptureError {
    CaptureError::field(at + 2, field, found as u64, expected)
}

/// Reads the rest of the block at `start` after its header. Leaves the body, of at least `shortest`
/// bytes, in `buffer`.
fn read_body<R: Read>(
    start: u64,
    length: u32,
    shortest: u32,
    endian: Endian,
    reader: &mut CountedReader<R>,
    buffer: &mut Vec<u8>,
) -> Result<(), CaptureError> {
    let body = body_len(start, length, shortest)? as usize;
    if body > MAX_BLOCK {
        return Err(CaptureError::field(
            start + 4,
            "length of a block",
            length,
            format!("at most {}", MAX_BLOCK + FRAMING as usize),
        ));
    }
    buffer.resize(body, 0);
    reader.fill(buffer, "a block")?;
    check_trailer(start, length, endian, reader)
}

/// The length of a block's body, between its two length fields.
fn body_len(start: u64, length: u32, shortest: u32) -> Result<u32, CaptureError> {
    let shortest = FRAMING + shortest;
    if length < shortest || !length.is_multiple_of(4) {
        return Err(CaptureError::field(
            start + 4,
            "length of a block",
            length,
            format!("a multiple of 4 from {shortest}"),
        ));
    }
    Ok(length - FRAMING)
}

/// Reads a block's second length.
fn check_trailer<R: Read>(
    start: u64,
    length: u32,
    endian: Endian,
    reader: &mut CountedReader<R>,
) -> Result<(), CaptureError> {
    let at = reader.offset();
    let second = endian.u32(reader.array("a block")?);
    if second == length {
        return Ok(());
    }
    Err(CaptureError::field(
        at,
        "length at the end of a block",
        second,
        format!("{length} as at its start (offset {start})"),
    ))
}

fn enhanced(endian: Endian, body: &[u8]) -> Packet {
    let mut rest = body;
    let interface = endian.u32(take(&mut rest));
    packet(endian, interface, rest)
}

fn obsolete(endian: Endian, body: &[u8]) -> Packet {
    let mut rest = body;
    let interface = endian.u16(take(&mut rest)).into();
    let _drops: [u8; 2] = take(&mut rest);
    packet(endian, interface, rest)
}

/// Reads the fields that both kinds of packet block have after their first word.
fn packet(endian: Endian, interface: u32, mut rest: &[u8]) -> Packet {
    let high = endian.u32(take(&mut rest));
    let low = endian.u32(take(&mut rest));
    Packet {
        interface,
        ticks: Some(u64::from(high) << 32 | u64::from(low)),
        captured: endian.u32(take(&mut rest)),
        wire_len: endian.u32(take(&mut rest)),
        at: 20,
    }
}
