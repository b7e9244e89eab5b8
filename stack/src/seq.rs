//! Packet sequence numbers that don't wrap.
//!
//! A PSN has 24 bits (IBTA 1.7, 9.2.9), and a message of 2^31 bytes at path MTU 256 spans 2^23 of
//! them, half of the space. So the state machines count in [`Seq`], which has 64 bits, and
//! translate at the wire: a received PSN becomes the nearest `Seq` to a known one.

use crate::transmit::Position;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use roce_wire::Psn;

/// A PSN in a 64-bit space that never wraps in practice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seq(u64);

impl Seq {
    /// The first `Seq` of a QP whose initial PSN is `psn`. It is at least 2^24, so that an old PSN
    /// before it has a `Seq`, too.
    pub(crate) fn initial(psn: Psn) -> Self {
        Self((1 << 24) + u64::from(psn.get()))
    }

    /// The `Seq` nearest to `self` that has this PSN on the wire.
    // rule: 9.7.1-psn-translated
    pub(crate) fn nearest(self, psn: Psn) -> Self {
        let distance = i64::from(psn.diff(self.wire()));
        Self(self.0.saturating_add_signed(distance))
    }

    /// The PSN in the BTH.
    pub(crate) fn wire(self) -> Psn {
        Psn::new((self.0 & 0xff_ffff) as u32)
    }

    /// The position of the packet with this PSN in its flow.
    #[inline]
    pub(crate) fn position(self) -> Option<Position> {
        NonZeroU64::new(self.0).map(Position)
    }

    /// The remainder of its division by `n`.
    pub(crate) fn modulo(self, n: usize) -> usize {
        (self.0 % n as u64) as usize
    }

    /// The previous one.
    pub(crate) fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The next one.
    pub(crate) fn next(self) -> Self {
        self + 1
    }
}

impl Add<u64> for Seq {
    type Output = Self;
    fn add(self, packets: u64) -> Self {
        Self(self.0 + packets)
    }
}

/// The number of packets from `rhs` to `self`; 0 if `rhs` is later.
impl Sub for Seq {
    type Output = u64;
    fn sub(self, rhs: Self) -> u64 {
        self.0.saturating_sub(rhs.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: 9.7.1-psn-translated
    #[test]
    fn the_nearest_is_found_across_the_wrap() {
        let seq = Seq::initial(Psn::new(0xff_fffe));
        assert_eq!(seq.nearest(Psn::new(0xff_ffff)), seq + 1);
        assert_eq!(seq.nearest(Psn::new(0)), seq + 2);
        assert_eq!((seq + 2).nearest(Psn::new(0xff_fffe)), seq);
        assert_eq!((seq + 2).wire(), Psn::new(0));
    }

    // shows: 9.7.1-psn-translated
    #[test]
    fn an_old_psn_before_the_first_has_a_seq() {
        let seq = Seq::initial(Psn::new(0));
        assert_eq!(seq.nearest(Psn::new(0xff_ffff)), seq.prev());
        assert_eq!(seq.prev().wire(), Psn::new(0xff_ffff));
    }
}
