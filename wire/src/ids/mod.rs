//! Queue pair numbers and keys.

use core::fmt;

/// A 24-bit queue pair number (IBTA 1.7, 9.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The subnet management queue pair, which RoCE does not use.
    pub const QP0: Qpn = Qpn(0);
    /// The general services queue pair, to which MADs are sent.
    pub const QP1: Qpn = Qpn(1);
    /// The number reserved for multicast.
    pub const MULTICAST: Qpn = Qpn(MASK);

    /// The number `value`; `None` if it does not fit in 24 bits.
    #[inline]
    pub const fn new(value: u32) -> Option<Qpn> {
        if value > MASK { None } else { Some(Qpn(value)) }
    }

    /// The number in the low 24 bits of `bits`; the others are ignored.
    #[inline]
    pub const fn from_bits(bits: u32) -> Qpn {
        Qpn(bits & MASK)
    }

    /// The value, below 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

const MASK: u32 = 0x00ff_ffff;

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({self})")
    }
}

/// A partition key: a 15-bit base and, in the top bit, full membership
/// (IBTA 1.7, 10.9.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// Full member of the default partition, which RoCE uses everywhere.
    // rule: A16-default-pkey
    pub const DEFAULT: PKey = PKey(0xffff);

    /// The 15 bits that name the partition.
    #[inline]
    // rule: 10.9.1-membership
    pub const fn base(self) -> u16 {
        self.0 & 0x7fff
    }

    /// Whether the holder is a full member, which may communicate with limited ones.
    #[inline]
    pub const fn is_full_member(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// Whether a holder of this key accepts a packet with key `other`: the bases are equal and not
    /// zero, and the two are not both limited members (IBTA 1.7, 10.9.3).
    #[inline]
    // rule: 10.9.3-match
    pub const fn matches(self, other: PKey) -> bool {
        // rule: 10.9.3-invalid
        self.base() != 0
            && self.base() == other.base()
            && (self.is_full_member() || other.is_full_member())
    }
}

impl Default for PKey {
    fn default() -> PKey {
        PKey::DEFAULT
    }
}

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PKey({self})")
    }
}

/// A queue key, which a datagram must carry to be accepted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct QKey(pub u32);

impl QKey {
    /// The well-known Q_Key of the general services queue pair, [`Qpn::QP1`].
    pub const QP1: QKey = QKey(0x8001_0000);
}

impl fmt::Display for QKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for QKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QKey({self})")
    }
}

#[cfg(test)]
mod tests;
