//! Messages: the 32 bits of immediate data of each WRITE. The upper 3 are the type.

use std::fmt;

/// The bits that are not the type.
const VALUE: u32 = (1 << 29) - 1;

const DATA: u32 = 0;
const CREDITS: u32 = 4;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;

/// The decoded immediate data of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The WRITE has put this number of bytes into the receive buffer: below 2^29.
    Data(u32),
    /// The total number of messages that the peer may send, modulo 2^16. If the WRITE has a payload, it is
    /// an element with further room in the receive buffer.
    Credits(u16),
    /// The WRITE has put a mapping at this index of the list of mappings.
    Mapping(u32),
    /// A control message.
    Control(Control),
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The sender has closed both halves of the connection.
    Disconnect,
    /// A keepalive probe.
    KeepAlive,
    /// The sender has closed its sending half.
    Shutdown,
}

/// Immediate data that are not a message of rsockets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnknownMessage(pub u32);

impl fmt::Display for UnknownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(imm) = self;
        write!(
            f,
            "immediate data {imm:#010x}: type {} with value {:#x} is not a message of rsockets",
            imm >> 29,
            imm & VALUE
        )
    }
}

impl fmt::Debug for UnknownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for UnknownMessage {}

impl Message {
    /// Decodes immediate data.
    ///
    /// # Errors
    /// If the type is reserved, or a control message is unknown.
    pub fn parse(imm: u32) -> Result<Self, UnknownMessage> {
        let value = imm & VALUE;
        Ok(match imm >> 29 {
            DATA => Self::Data(value),
            // rdma-core sends the sum of two 16-bit numbers, and takes the lower 16 bits.
            CREDITS => Self::Credits(value as u16),
            MAPPING => Self::Mapping(value),
            CONTROL => Self::Control(match value {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                2 => Control::Shutdown,
                _ => return Err(UnknownMessage(imm)),
            }),
            _ => return Err(UnknownMessage(imm)),
        })
    }

    /// Encodes the message. Values are truncated to 29 bits.
    pub fn encode(self) -> u32 {
        let (kind, value) = match self {
            Self::Data(len) => (DATA, len),
            Self::Credits(credits) => (CREDITS, u32::from(credits)),
            Self::Mapping(index) => (MAPPING, index),
            Self::Control(Control::Disconnect) => (CONTROL, 0),
            Self::Control(Control::KeepAlive) => (CONTROL, 1),
            Self::Control(Control::Shutdown) => (CONTROL, 2),
        };
        kind << 29 | value & VALUE
    }
}
