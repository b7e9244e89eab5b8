//! SGL descriptors: where the data of a command are.

use super::field::{put, u32_at, u64_at};
use roce_verbs::RemoteAddr;
use std::fmt;

/// Type "data block", subtype "offset": data in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Type "keyed data block", subtype "address": data in the host's memory.
const KEYED: u8 = 0x40;
/// As above, and the key is invalidated by the response (RDMA, 3.2.1).
const KEYED_INVALIDATE: u8 = 0x4f;

/// The most bytes that a keyed descriptor can name: its length has 24 bits.
pub(crate) const MAX_KEYED_LEN: u32 = (1 << 24) - 1;

/// Where the data of a command are: the descriptor of 16 bytes in the command (Base, 4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sgl {
    /// In the capsule behind the command.
    InCapsule {
        /// The first byte, counted from the end of the command and the controller's ICDOFF.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// In the host's memory.
    Keyed(KeyedSgl),
}

/// Memory of the host that the target reads or writes by RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyedSgl {
    /// The first byte's address, and its key.
    pub remote: RemoteAddr,
    /// Length in bytes, less than 2^24.
    pub len: u32,
    /// Whether the target's response invalidates the key.
    pub invalidate: bool,
}

/// A descriptor is of a type or subtype that this transport does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BadSgl(pub u8);

impl fmt::Display for BadSgl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an SGL descriptor has the identifier {:#04x}: over RDMA it is {IN_CAPSULE:#04x} (data in \
             the capsule), {KEYED:#04x} or {KEYED_INVALIDATE:#04x} (data in the host's memory)",
            self.0
        )
    }
}

impl fmt::Debug for BadSgl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BadSgl {}

impl Sgl {
    /// The descriptor of no data.
    pub const NONE: Self = Self::Keyed(KeyedSgl {
        remote: RemoteAddr { addr: 0, rkey: 0 },
        len: 0,
        invalidate: false,
    });

    /// Length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Self::InCapsule { len, .. } => *len,
            Self::Keyed(keyed) => keyed.len,
        }
    }

    /// Whether it names no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parses a descriptor.
    ///
    /// # Errors
    /// If its type or subtype is not one of this transport.
    pub fn parse(bytes: &[u8; 16]) -> Result<Self, BadSgl> {
        let kind = bytes[15];
        match kind {
            IN_CAPSULE => Ok(Self::InCapsule {
                offset: u64_at(bytes, 0),
                len: u32_at(bytes, 8),
            }),
            KEYED | KEYED_INVALIDATE => Ok(Self::Keyed(KeyedSgl {
                remote: RemoteAddr {
                    addr: u64_at(bytes, 0),
                    rkey: u32_at(bytes, 11),
                },
                len: u32_at(bytes, 8) & MAX_KEYED_LEN,
                invalidate: kind == KEYED_INVALIDATE,
            })),
            other => Err(BadSgl(other)),
        }
    }

    /// The 16 bytes of the descriptor. A keyed length is cut to 24 bits.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self {
            Self::InCapsule { offset, len } => {
                put(&mut bytes, 0, &offset.to_le_bytes());
                put(&mut bytes, 8, &len.to_le_bytes());
                bytes[15] = IN_CAPSULE;
            }
            Self::Keyed(keyed) => {
                put(&mut bytes, 0, &keyed.remote.addr.to_le_bytes());
                put(&mut bytes, 8, &keyed.len.to_le_bytes()[..3]);
                put(&mut bytes, 11, &keyed.remote.rkey.to_le_bytes());
                bytes[15] = if keyed.invalidate {
                    KEYED_INVALIDATE
                } else {
                    KEYED
                };
            }
        }
        bytes
    }
}
