//! Ranges of QPNs, so that several NICs can share one address.

use roce_wire::Qpn;

/// One of [`QpnRange::COUNT`] equal ranges of the QPN space: all QPNs with the same high bits. NICs
/// behind one address, each in its own process, have one range each. So their QPNs never collide,
/// and the first byte of a packet's destination QPN identifies the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpnRange(u8);

impl QpnRange {
    /// The number of ranges.
    pub const COUNT: u8 = 1 << (8 - Self::SHIFT);
    /// The number of a QPN's range is the first byte of the QPN, shifted to the right by this
    /// number of bits.
    pub const SHIFT: u32 = 1;
    /// The number of bits of a QPN below its range's number.
    const LOW_BITS: u32 = 16 + Self::SHIFT;

    /// The range that contains the QPNs of the management QPs.
    pub const FIRST: Self = Self(0);

    /// The range `number`; `None` from [`QpnRange::COUNT`] on.
    pub fn new(number: u8) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// The number of the range, below [`QpnRange::COUNT`].
    pub fn number(self) -> u8 {
        self.0
    }

    /// The range that contains `qpn`.
    pub const fn of(qpn: Qpn) -> Self {
        Self((qpn.get() >> Self::LOW_BITS) as u8)
    }

    /// The QPN of this range whose lower bits are those of `bits`.
    pub(crate) fn pick(self, bits: u32) -> u32 {
        u32::from(self.0) << Self::LOW_BITS | bits & ((1 << Self::LOW_BITS) - 1)
    }

    /// The maximum number of QPs of a NIC that draws QPNs from one range. It excludes the three
    /// reserved QPNs, which are in two of the ranges, and leaves enough free QPNs that few draws
    /// are needed.
    pub const MAX_QPS: usize = (1 << Self::LOW_BITS) - 1024;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_disjoint_and_cover_all_numbers() {
        for number in 0..QpnRange::COUNT {
            let part = QpnRange::new(number).expect("there are as many");
            for bits in [0, 1, 0x1_ffff, 0x00ff_ffff, u32::MAX, 0x1234_5678] {
                let qpn = Qpn::from_bits(part.pick(bits));
                assert_eq!(QpnRange::of(qpn), part, "{qpn}");
                // All bits below the number are used, so that a range has as many QPNs as it can.
                assert_eq!(qpn.get() & 0x1_ffff, bits & 0x1_ffff, "{qpn}");
            }
        }
        assert_eq!(QpnRange::new(QpnRange::COUNT), None);
        let last = QpnRange::of(Qpn::MULTICAST).number();
        assert_eq!(last, QpnRange::COUNT - 1);
    }
}
