//! Sets of headers.

use core::fmt;

use crate::Layer;

/// A set of headers that may be between BTH and payload. They are always in the order in which they
/// are listed here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Headers(u16);

impl Headers {
    /// No header.
    pub const NONE: Headers = Headers(0);
    /// [`crate::XrcEth`], 4 bytes.
    pub const XRCETH: Headers = Headers(1 << 0);
    /// [`crate::Deth`], 8 bytes.
    pub const DETH: Headers = Headers(1 << 1);
    /// [`crate::Feth`], 4 bytes.
    pub const FETH: Headers = Headers(1 << 2);
    /// [`crate::Reth`], 16 bytes.
    pub const RETH: Headers = Headers(1 << 3);
    /// [`crate::AtomicEth`], 28 bytes.
    pub const ATOMIC: Headers = Headers(1 << 4);
    /// [`crate::Aeth`], 4 bytes.
    pub const AETH: Headers = Headers(1 << 5);
    /// [`crate::AtomicAckEth`], 8 bytes.
    pub const ATOMIC_ACK: Headers = Headers(1 << 6);
    /// [`crate::ImmDt`], 4 bytes.
    pub const IMM: Headers = Headers(1 << 7);
    /// [`crate::Ieth`], 4 bytes.
    pub const IETH: Headers = Headers(1 << 8);
    /// The reserved bytes of a CNP, [`CNP_RESERVED_LEN`] of them.
    pub const CNP: Headers = Headers(1 << 9);

    /// Whether all of `other` is in the set.
    #[inline]
    pub const fn contains(self, other: Headers) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Headers) -> Headers {
        Headers(self.0 | other.0)
    }

    /// The headers of the set, in their order in the packet, with their lengths.
    pub fn iter(self) -> impl Iterator<Item = (Layer, usize)> {
        (0..BY_BIT.len())
            .filter(move |bit| self.0 >> bit & 1 != 0)
            .map(|bit| BY_BIT[bit])
    }

    /// The total length of the headers.
    pub const fn byte_len(self) -> usize {
        let mut sum = 0;
        let mut bit = 0;
        while bit < BY_BIT.len() {
            if self.0 >> bit & 1 != 0 {
                sum += BY_BIT[bit].1;
            }
            bit += 1;
        }
        sum
    }
}

/// Reserved bytes that follow the BTH of a congestion notification packet (RoCEv2 Annex A17.9.3).
/// Sent as zeros, ignored on receipt.
pub const CNP_RESERVED_LEN: usize = 16;

/// Each header and its length, by bit.
const BY_BIT: [(Layer, usize); 10] = [
    (Layer::XrcEth, crate::XrcEth::LEN),
    (Layer::Deth, crate::Deth::LEN),
    (Layer::Feth, crate::Feth::LEN),
    (Layer::Reth, crate::Reth::LEN),
    (Layer::AtomicEth, crate::AtomicEth::LEN),
    (Layer::Aeth, crate::Aeth::LEN),
    (Layer::AtomicAckEth, crate::AtomicAckEth::LEN),
    (Layer::ImmDt, crate::ImmDt::LEN),
    (Layer::Ieth, crate::Ieth::LEN),
    (Layer::Cnp, CNP_RESERVED_LEN),
];

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(layer, _)| layer))
            .finish()
    }
}
