//! The private data of the REQ and of the REP.

use super::{ByteOrder, ELEMENT_LEN, Element};
use std::fmt;

/// The length of [`ConnectData`] in bytes.
pub const CONNECT_DATA_LEN: usize = 40;

const VERSION: u8 = 1;
/// The sender's processor is big-endian.
const BIG_ENDIAN: u8 = 1;
/// The sender has a list of mappings after its list of elements.
const HAS_MAPPINGS: u8 = 2;

/// What each end says when it connects, big-endian: version (1 byte), flags (1), credits (2), three
/// bytes of zeros, the number of mappings (1), the list of elements (16) and the receive buffer (16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// The order of bytes in the lists of the sender.
    pub order: ByteOrder,
    /// The number of data messages that the peer may send before it gets further credits.
    pub credits: u16,
    /// The number of mappings that the peer may write into the list after the elements; `None` if
    /// the sender knows no mappings. Above 128, it is a multiple of 256, at most 32,512.
    pub mappings: Option<u16>,
    /// The list of elements, which the peer writes; the length is their number.
    pub elements: Element,
    /// The first stretch of the receive buffer.
    pub buffer: Element,
}

/// Why private data are not those of an rsocket.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectDataError {
    /// They are too short.
    Short {
        /// Their length in bytes.
        len: usize,
    },
    /// They have another version.
    Version(u8),
    /// The list of elements is empty, so the peer could never be offered room.
    NoElements,
}

impl fmt::Display for ConnectDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len } => write!(
                f,
                "{len} bytes of private data, but those of an rsocket are {CONNECT_DATA_LEN}"
            ),
            Self::Version(version) => write!(
                f,
                "private data of version {version}, but those of an rsocket are {VERSION}: the \
                 peer's program does not use rsockets"
            ),
            Self::NoElements => f.write_str("the peer's list of elements is empty"),
        }
    }
}

impl fmt::Debug for ConnectDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConnectDataError {}

impl ConnectData {
    /// The bytes.
    pub fn encode(&self) -> [u8; CONNECT_DATA_LEN] {
        let mut bytes = [0; CONNECT_DATA_LEN];
        bytes[0] = VERSION;
        if self.order == ByteOrder::Big {
            bytes[1] |= BIG_ENDIAN;
        }
        if let Some(mappings) = self.mappings {
            bytes[1] |= HAS_MAPPINGS;
            bytes[7] = scaled(mappings);
        }
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.elements.encode(ByteOrder::Big));
        bytes[24..].copy_from_slice(&self.buffer.encode(ByteOrder::Big));
        bytes
    }

    /// The data at the start of a message's private data.
    ///
    /// # Errors
    /// See [`ConnectDataError`].
    pub fn parse(private: &[u8]) -> Result<Self, ConnectDataError> {
        let len = private.len();
        let Some((bytes, _)) = private.split_first_chunk::<CONNECT_DATA_LEN>() else {
            return Err(ConnectDataError::Short { len });
        };
        if bytes[0] != VERSION {
            return Err(ConnectDataError::Version(bytes[0]));
        }
        let element = |from: usize| {
            let mut element = [0; ELEMENT_LEN];
            element.copy_from_slice(&bytes[from..from + ELEMENT_LEN]);
            Element::parse(&element, ByteOrder::Big)
        };
        let flags = bytes[1];
        let data = Self {
            order: if flags & BIG_ENDIAN == 0 {
                ByteOrder::Little
            } else {
                ByteOrder::Big
            },
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            mappings: (flags & HAS_MAPPINGS != 0).then(|| unscaled(bytes[7])),
            elements: element(8),
            buffer: element(24),
        };
        if data.elements.len == 0 {
            return Err(ConnectDataError::NoElements);
        }
        Ok(data)
    }
}

/// The number of mappings that private data can express, closest to `mappings` from below.
pub(crate) fn expressible(mappings: u16) -> u16 {
    unscaled(scaled(mappings))
}

/// A number up to 128 as it is. Of a larger one, 7 bits without the lower 8, and the top bit set.
fn scaled(mappings: u16) -> u8 {
    match u8::try_from(mappings) {
        Ok(exact) if exact <= 128 => exact,
        _ => 128 | (mappings >> 8).min(127) as u8,
    }
}

fn unscaled(scaled: u8) -> u16 {
    match scaled {
        0..=128 => u16::from(scaled),
        _ => u16::from(scaled & 127) << 8,
    }
}
