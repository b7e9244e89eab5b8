//! Packet sequence numbers.

use core::fmt;
use core::ops::Add;

/// A 24-bit packet sequence number (IBTA 1.7, 9.2).
///
/// PSNs wrap, so they have no order of their own: [`Psn::diff`] tells which of two is later,
/// provided that they are less than 2^23 apart.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// Bits of a PSN.
    pub const BITS: u32 = 24;
    /// The largest PSN, which is followed by zero.
    pub const MAX: Psn = Psn(MASK);
    /// PSN zero.
    pub const ZERO: Psn = Psn(0);

    /// The PSN in the low 24 bits of `value`; the others are ignored.
    #[inline]
    pub const fn new(value: u32) -> Psn {
        Psn(value & MASK)
    }

    /// The PSN `value`; `None` if it does not fit in 24 bits.
    #[inline]
    pub const fn try_new(value: u32) -> Option<Psn> {
        if value > MASK { None } else { Some(Psn(value)) }
    }

    /// The value, below 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `packets` further on, wrapping.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // `Add` is implemented below, but is not const.
    // rule: 9.7.1-psn-modulo
    pub const fn add(self, packets: u32) -> Psn {
        Psn(self.0.wrapping_add(packets) & MASK)
    }

    /// The PSN `packets` before this one, wrapping.
    #[inline]
    #[must_use]
    pub const fn back(self, packets: u32) -> Psn {
        Psn(self.0.wrapping_sub(packets) & MASK)
    }

    /// The next PSN.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Psn {
        self.add(1)
    }

    /// The distance of `self` from `other`, in packets: -2^23 to 2^23 - 1.
    ///
    /// For all `n` in that range, `other.add(n as u32).diff(other) == n`.
    #[inline]
    // rule: 9.7.1-psn-order
    pub const fn diff(self, other: Psn) -> i32 {
        // Sign extension from bit 23.
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }
}

const MASK: u32 = 0x00ff_ffff;

impl Add<u32> for Psn {
    type Output = Psn;

    #[inline]
    fn add(self, packets: u32) -> Psn {
        Psn::add(self, packets)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({self})")
    }
}

#[cfg(test)]
mod tests;
