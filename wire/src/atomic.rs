//! The headers of atomic operations.

use crate::Layer;
use crate::header::{be32, be64, fixed_header};

/// The atomic extended transport header, of compare-and-swap and fetch-and-add
/// (IBTA 1.7, 9.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Address of the eight bytes in the responder's memory; a multiple of 8.
    pub va: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// The value that compare-and-swap stores, or that fetch-and-add adds.
    pub swap_or_add: u64,
    /// The expected value of compare-and-swap.
    pub compare: u64,
}

// rule: 9.3.4-atomiceth
fixed_header!(AtomicEth, 28, Layer::AtomicEth);

impl AtomicEth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; AtomicEth::LEN]) -> AtomicEth {
        AtomicEth {
            va: be64(b, 0),
            rkey: be32(b, 8),
            swap_or_add: be64(b, 12),
            compare: be64(b, 20),
        }
    }

    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; AtomicEth::LEN] {
        let mut b = [0; AtomicEth::LEN];
        b[0..8].copy_from_slice(&self.va.to_be_bytes());
        b[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        b[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        b[20..28].copy_from_slice(&self.compare.to_be_bytes());
        b
    }
}

/// The atomic ACK extended transport header, which follows the AETH
/// (IBTA 1.7, 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The value of the eight bytes before the operation.
    pub original: u64,
}

// rule: 9.3.5-atomicacketh
fixed_header!(AtomicAckEth, 8, Layer::AtomicAckEth);

impl AtomicAckEth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; AtomicAckEth::LEN]) -> AtomicAckEth {
        AtomicAckEth {
            original: be64(b, 0),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; AtomicAckEth::LEN] {
        self.original.to_be_bytes()
    }
}
