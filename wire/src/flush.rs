//! The flush extended transport header.

use crate::Layer;
use crate::header::fixed_header;

/// The flush extended transport header, which precedes the RETH of a FLUSH
/// (IBTA 1.7, Annex A19 "Memory Placement Extensions").
///
/// One big-endian word: placement types in bits 3 to 0, selectivity in bits 5 and
/// 4, the rest reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feth {
    /// The placement that the responder must reach before it answers.
    pub placement: FlushPlacement,
    /// The bytes that are flushed.
    pub selectivity: FlushSelectivity,
}

/// The placement of flushed bytes; 4 bits, any of which may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlushPlacement(u8);

impl FlushPlacement {
    /// No placement.
    pub const NONE: FlushPlacement = FlushPlacement(0);
    /// Visible to every processor and device of the responder.
    pub const GLOBAL_VISIBILITY: FlushPlacement = FlushPlacement(1);
    /// In memory that survives a loss of power.
    pub const PERSISTENCE: FlushPlacement = FlushPlacement(2);

    /// The placement in the low four bits; the others are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> FlushPlacement {
        FlushPlacement(bits & 0xf)
    }

    /// The four bits, two of which are reserved.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The union of both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: FlushPlacement) -> FlushPlacement {
        FlushPlacement(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    #[inline]
    pub const fn contains(self, other: FlushPlacement) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Selects the bytes of a FLUSH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlushSelectivity {
    /// The range in the RETH.
    #[default]
    Range,
    /// The whole region of the RETH's key.
    Region,
    /// A value that the specification reserves: 2 or 3.
    Reserved(u8),
}

impl FlushSelectivity {
    /// The selectivity in the low two bits; the others are ignored.
    #[inline]
    pub const fn from_bits(bits: u8) -> FlushSelectivity {
        match bits & 0x3 {
            0 => FlushSelectivity::Range,
            1 => FlushSelectivity::Region,
            reserved => FlushSelectivity::Reserved(reserved),
        }
    }

    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            FlushSelectivity::Range => 0,
            FlushSelectivity::Region => 1,
            FlushSelectivity::Reserved(bits) => bits & 0x3,
        }
    }
}

// rule: A19-feth
fixed_header!(Feth, 4, Layer::Feth);

impl Feth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; Feth::LEN]) -> Feth {
        Feth {
            placement: FlushPlacement::from_bits(b[3]),
            selectivity: FlushSelectivity::from_bits(b[3] >> 4),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; Feth::LEN] {
        [
            0,
            0,
            0,
            self.selectivity.bits() << 4 | self.placement.bits(),
        ]
    }
}
