//! The global route header of RoCE v1.

use crate::header::{be16, be32};
use crate::{Layer, ParseError};

/// The global route header, which has IPv6's layout (IBTA 1.7, 8.3). RoCE v1 puts
/// it straight after the Ethernet header; a UD receive puts one in front of the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grh {
    /// Traffic class, 8 bits.
    pub traffic_class: u8,
    /// Flow label, 20 bits. Higher bits are not sent.
    pub flow_label: u32,
    /// Bytes from the BTH to the ICRC, both included.
    pub payload_len: u16,
    /// The next header: [`Grh::NEXT_HEADER_BTH`] in all packets with a transport.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: [u8; 16],
    /// Destination GID.
    pub dgid: [u8; 16],
}

impl Grh {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 40;
    /// The next header value that means a BTH.
    pub const NEXT_HEADER_BTH: u8 = 0x1b;

    /// Reads the header from the first [`Grh::LEN`] bytes; ignores the bytes behind it.
    ///
    /// # Errors
    /// If there are fewer bytes, or if the version is not 6.
    pub fn parse(bytes: &[u8]) -> Result<Grh, ParseError> {
        let Some(b) = bytes.first_chunk::<{ Grh::LEN }>() else {
            return Err(ParseError::truncated(Layer::Grh, bytes.len(), Grh::LEN));
        };
        let word = be32(b, field::VERSION_CLASS_FLOW);
        if word >> 28 != 6 {
            return Err(ParseError::unsupported(
                Layer::Grh,
                "version",
                word >> 28,
                "6",
            ));
        }
        let mut grh = Grh {
            traffic_class: (word >> 20) as u8,
            flow_label: word & FLOW_LABEL,
            payload_len: be16(b, field::PAYLOAD_LEN),
            next_header: b[field::NEXT_HEADER],
            hop_limit: b[field::HOP_LIMIT],
            sgid: [0; 16],
            dgid: [0; 16],
        };
        grh.sgid.copy_from_slice(&b[field::SGID]);
        grh.dgid.copy_from_slice(&b[field::DGID]);
        Ok(grh)
    }

    /// Writes the header to the first [`Grh::LEN`] bytes.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Grh::LEN`].
    pub fn emit(&self, buf: &mut [u8]) {
        buf[..Grh::LEN].copy_from_slice(&self.to_bytes());
    }

    /// The bytes on the wire.
    pub fn to_bytes(&self) -> [u8; Grh::LEN] {
        let mut b = [0; Grh::LEN];
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL;
        b[..4].copy_from_slice(&word.to_be_bytes());
        b[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        b[field::NEXT_HEADER] = self.next_header;
        b[field::HOP_LIMIT] = self.hop_limit;
        b[field::SGID].copy_from_slice(&self.sgid);
        b[field::DGID].copy_from_slice(&self.dgid);
        b
    }
}

const FLOW_LABEL: u32 = 0x000f_ffff;

/// The offsets of the fields.
mod field {
    use core::ops::Range;

    pub(super) const VERSION_CLASS_FLOW: usize = 0;
    pub(super) const PAYLOAD_LEN: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SGID: Range<usize> = 8..24;
    pub(super) const DGID: Range<usize> = 24..40;
}
