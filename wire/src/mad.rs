//! The header of management datagrams.

use crate::header::{be16, be32, be64, fixed_header};
use crate::{Layer, ParseError};

/// Length of every management datagram, in bytes (IBTA 1.7, 13.4.2).
// rule: 13.4.2-length
pub const MAD_LEN: usize = 256;

/// The header of every management datagram (IBTA 1.7, 13.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MadHeader {
    /// The version of the MAD format that all classes share: 1.
    pub base_version: u8,
    /// The management class: [`MadHeader::CLASS_CM`] for connection management.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// The method; the top bit is the response bit. [`MadHeader::METHOD_SEND`] for connection
    /// management.
    pub method: u8,
    /// The status of the operation, in a response.
    pub status: u16,
    /// Defined by the class.
    pub class_specific: u16,
    /// Chosen by the requester; the responder repeats it.
    pub transaction: u64,
    /// The attribute ID. In connection management, it identifies the message.
    pub attribute: u16,
    /// The modifier of the attribute.
    pub modifier: u32,
}

// rule: 13.4.3-header
fixed_header!(MadHeader, 24, Layer::Mad);

impl MadHeader {
    /// The only base version.
    pub const BASE_VERSION: u8 = 1;
    /// Communication management (IBTA 1.7, 16.7).
    pub const CLASS_CM: u8 = 0x07;
    /// The only version of communication management.
    pub const CM_VERSION: u8 = 2;
    /// The method Send, which is neither a request nor a response.
    pub const METHOD_SEND: u8 = 0x03;

    /// The header of message `attribute` of communication management.
    // rule: 16.7-class
    pub const fn cm(attribute: u16, transaction: u64) -> MadHeader {
        MadHeader {
            base_version: MadHeader::BASE_VERSION,
            class: MadHeader::CLASS_CM,
            class_version: MadHeader::CM_VERSION,
            method: MadHeader::METHOD_SEND,
            status: 0,
            class_specific: 0,
            transaction,
            attribute,
            modifier: 0,
        }
    }

    /// Checks that a message of communication management follows the header.
    ///
    /// # Errors
    /// If a version, the class or the method has another value. The error names the field.
    // rule: 13.4.3-unknown
    pub fn expect_cm(&self) -> Result<(), ParseError> {
        let wrong = |field, found: u8, expected| {
            let found = found.into();
            Err(ParseError::unsupported(Layer::Mad, field, found, expected))
        };
        if self.base_version != MadHeader::BASE_VERSION {
            return wrong("base version", self.base_version, "1");
        }
        if self.class != MadHeader::CLASS_CM {
            return wrong(
                "management class",
                self.class,
                "7 (communication management)",
            );
        }
        if self.class_version != MadHeader::CM_VERSION {
            return wrong("class version", self.class_version, "2");
        }
        if self.method != MadHeader::METHOD_SEND {
            return wrong("method", self.method, "3 (Send)");
        }
        Ok(())
    }

    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; MadHeader::LEN]) -> MadHeader {
        MadHeader {
            base_version: b[0],
            class: b[1],
            class_version: b[2],
            method: b[3],
            status: be16(b, 4),
            class_specific: be16(b, 6),
            transaction: be64(b, 8),
            attribute: be16(b, 16),
            modifier: be32(b, 20),
        }
    }

    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; MadHeader::LEN] {
        let mut b = [0; MadHeader::LEN];
        b[..4].copy_from_slice(&[
            self.base_version,
            self.class,
            self.class_version,
            self.method,
        ]);
        b[4..6].copy_from_slice(&self.status.to_be_bytes());
        b[6..8].copy_from_slice(&self.class_specific.to_be_bytes());
        b[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        b[16..18].copy_from_slice(&self.attribute.to_be_bytes());
        b[20..].copy_from_slice(&self.modifier.to_be_bytes());
        b
    }
}
