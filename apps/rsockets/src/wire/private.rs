//! The private data of REQ and REP.

use super::{ByteOrder, ELEMENT_LEN, Element};
use std::fmt;

/// The length of [`ConnectData`] in bytes.
pub const CONNECT_DATA_LEN: usize = 40;

const VERSION: u8 = 1;
/// The sender is big-endian.
const BIG_ENDIAN: u8 = 1;
/// The sender has a list of mappings after its list of elements.
const HAS_MAPPINGS: u8 = 2;

/// The private data that each end sends when connecting, big-endian: version (1 byte), flags (1), credits
/// (2), three zero bytes, the number of mappings (1), the list of elements (16) and the receive buffer
/// (16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectData {
    /// The byte order of the sender's lists.
    pub order: ByteOrder,
    /// The number of data messages that the peer may send before it is granted further credits.
    pub credits: u16,
    /// The number of mappings that the peer may write to the list after the elements; `None` if the
    /// sender does not support mappings. Above 128, a multiple of 256, at most 32,512.
    pub mappings: Option<u16>,
    /// The list of elements that the peer writes; the length counts elements.
    pub elements: Element,
    /// The first stretch of the receive buffer.
    pub buffer: Element,
}

/// Why private data are not an rsocket's.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectDataError {
    /// They are too short.
    Short {
        /// Their length in bytes.
        len: usize,
    },
    /// The version is unknown.
    Version(u8),
    /// The list of elements is empty, so room could never be offered.
    NoElements,
}

impl fmt::Display for ConnectDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len } => write!(
                f,
                "{len} bytes of private data, but an rsocket sends {CONNECT_DATA_LEN}"
            ),
            Self::Version(version) => write!(
                f,
                "private data of version {version} instead of {VERSION}: the peer's program does not \
                 use rsockets"
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
    /// Encodes the private data.
    pub fn encode(&self) -> [u8; CONNECT_DATA_LEN] {
        let mut bytes = [0; CONNECT_DATA_LEN];
        bytes[0] = VERSION;
        if self.order == ByteOrder::Big {
            bytes[1] |= BIG_ENDIAN;
        }
        if let Some(mappings) = self.mappings {
            bytes[1] |= HAS_MAPPINGS;
            bytes[7] = scale(mappings);
        }
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.elements.encode(ByteOrder::Big));
        bytes[24..].copy_from_slice(&self.buffer.encode(ByteOrder::Big));
        bytes
    }

    /// Parses the start of a CM message's private data.
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
            mappings: (flags & HAS_MAPPINGS != 0).then(|| unscale(bytes[7])),
            elements: element(8),
            buffer: element(24),
        };
        if data.elements.len == 0 {
            return Err(ConnectDataError::NoElements);
        }
        Ok(data)
    }
}

/// Rounds `mappings` down to a number that private data can express.
pub(crate) fn round_down_mappings(mappings: u16) -> u16 {
    unscale(scale(mappings))
}

/// Encodes up to 128 exactly. Above, the top bit marks the upper 7 of 15 bits.
fn scale(mappings: u16) -> u8 {
    match u8::try_from(mappings) {
        Ok(exact) if exact <= 128 => exact,
        _ => 128 | (mappings >> 8).min(127) as u8,
    }
}

fn unscale(scaled: u8) -> u16 {
    match scaled {
        0..=128 => u16::from(scaled),
        _ => u16::from(scaled & 127) << 8,
    }
}
