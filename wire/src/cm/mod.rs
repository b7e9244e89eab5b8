//! Messages of communication management (IBTA 1.7, 12.6 and 12.11), which establish and release
//! connections, and look up datagram services.
//!
//! ```text
//! MAD header, 24 bytes │ message, 232 bytes: fixed fields │ private data to the end
//! └───────── MadHeader ┴──────────────── CmMad ───────────────────────────────────┘
//! ```
//!
//! [`CmMad::parse`] and [`CmMad::to_bytes`] convert in both directions. Private data always fills
//! the space after the fixed fields; shorter data is padded with zeros.

mod establish;
mod ip_service;
mod path;
mod private;
mod reason;
mod release;
mod service;
mod sidr;

pub use establish::{Mra, Mraed, Rej, Rejected, Rep, Req, Rtu};
pub use ip_service::IpService;
pub use path::{PathRecord, gid_of, ip_of};
pub use private::PrivateData;
pub use reason::{RejectReason, SidrStatus};
pub use release::{Drep, Dreq};
pub use service::{PortSpace, ServiceId, ServiceType};
pub use sidr::{SidrRep, SidrReq};

use crate::{Layer, MAD_LEN, MadHeader, ParseError};

/// The length of a message after the MAD header, in bytes.
const LEN: usize = MAD_LEN - MadHeader::LEN;

/// The bytes after the MAD header.
type Data = [u8; LEN];

/// A message of communication management with its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmMad<'a> {
    /// The transaction ID of the MAD header. The messages that establish one connection share an
    /// ID, and those that release it share another.
    pub transaction: u64,
    /// The message.
    pub message: CmMessage<'a>,
}

/// The messages. Those about alternate paths (LAP and APR) are missing: RoCE has no
/// path migration.
// The variants differ in size. That costs little, because only one message exists at a time, on the
// stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmMessage<'a> {
    /// Request for a connection.
    Req(Req<'a>),
    /// Message receipt acknowledged: the sender needs more time for its reply.
    Mra(Mra<'a>),
    /// Rejected.
    Rej(Rej<'a>),
    /// Reply to a request.
    Rep(Rep<'a>),
    /// Ready to use.
    Rtu(Rtu<'a>),
    /// Request to release a connection.
    Dreq(Dreq<'a>),
    /// Reply to [`CmMessage::Dreq`].
    Drep(Drep<'a>),
    /// Request for the QP of a datagram service.
    SidrReq(SidrReq<'a>),
    /// Reply to [`CmMessage::SidrReq`].
    SidrRep(SidrRep<'a>),
}

impl CmMessage<'_> {
    /// The attribute ID of the MAD header (IBTA 1.7, 16.7.3).
    // rule: 16.7.3-attributes
    pub const fn attribute(&self) -> u16 {
        match self {
            CmMessage::Req(_) => 0x10,
            CmMessage::Mra(_) => 0x11,
            CmMessage::Rej(_) => 0x12,
            CmMessage::Rep(_) => 0x13,
            CmMessage::Rtu(_) => 0x14,
            CmMessage::Dreq(_) => 0x15,
            CmMessage::Drep(_) => 0x16,
            CmMessage::SidrReq(_) => 0x17,
            CmMessage::SidrRep(_) => 0x18,
        }
    }
}

impl<'a> CmMad<'a> {
    /// Reads a management datagram.
    ///
    /// # Errors
    /// If the length is not [`MAD_LEN`]; if class, version, method or attribute is not one of
    /// communication management; or if a field has a reserved value.
    pub fn parse(bytes: &'a [u8]) -> Result<CmMad<'a>, ParseError> {
        let header = MadHeader::parse(bytes)?;
        header.expect_cm()?;
        if bytes.len() > MAD_LEN {
            return Err(ParseError::too_large(
                Layer::Mad,
                "length",
                bytes.len(),
                MAD_LEN,
            ));
        }
        let Some(data) = bytes[MadHeader::LEN..].first_chunk::<LEN>() else {
            return Err(ParseError::truncated(Layer::Mad, bytes.len(), MAD_LEN));
        };
        Ok(CmMad {
            transaction: header.transaction,
            message: message(header.attribute, data)?,
        })
    }

    /// Writes the management datagram.
    pub fn to_bytes(&self) -> [u8; MAD_LEN] {
        let mut bytes = [0; MAD_LEN];
        MadHeader::cm(self.message.attribute(), self.transaction).emit(&mut bytes);
        if let Some(data) = bytes.last_chunk_mut::<LEN>() {
            match &self.message {
                CmMessage::Req(m) => m.write(data),
                CmMessage::Mra(m) => m.write(data),
                CmMessage::Rej(m) => m.write(data),
                CmMessage::Rep(m) => m.write(data),
                CmMessage::Rtu(m) => m.write(data),
                CmMessage::Dreq(m) => m.write(data),
                CmMessage::Drep(m) => m.write(data),
                CmMessage::SidrReq(m) => m.write(data),
                CmMessage::SidrRep(m) => m.write(data),
            }
        }
        bytes
    }
}

/// Parses `data` as the message that `attribute` names.
fn message(attribute: u16, data: &Data) -> Result<CmMessage<'_>, ParseError> {
    Ok(match attribute {
        0x10 => CmMessage::Req(Req::read(data)?),
        0x11 => CmMessage::Mra(Mra::read(data)?),
        0x12 => CmMessage::Rej(Rej::read(data)?),
        0x13 => CmMessage::Rep(Rep::read(data)),
        0x14 => CmMessage::Rtu(Rtu::read(data)),
        0x15 => CmMessage::Dreq(Dreq::read(data)),
        0x16 => CmMessage::Drep(Drep::read(data)),
        0x17 => CmMessage::SidrReq(SidrReq::read(data)),
        0x18 => CmMessage::SidrRep(SidrRep::read(data)),
        other => {
            return Err(ParseError::unsupported(
                Layer::Mad,
                "attribute id",
                other.into(),
                "a message of communication management, 0x10 to 0x18",
            ));
        }
    })
}

/// Writes `bytes` at `at`.
fn put<const N: usize, const K: usize>(b: &mut [u8; N], at: usize, bytes: [u8; K]) {
    b[at..at + K].copy_from_slice(&bytes);
}

/// Writes a 24-bit number at `at`.
fn put24<const N: usize>(b: &mut [u8; N], at: usize, value: u32) {
    let [_, high, middle, low] = value.to_be_bytes();
    put(b, at, [high, middle, low]);
}

/// Writes both communication IDs, with which six of the messages begin.
fn put_ids(data: &mut Data, local_id: u32, remote_id: u32) {
    put(data, 0, local_id.to_be_bytes());
    put(data, 4, remote_id.to_be_bytes());
}

#[cfg(test)]
mod tests;
