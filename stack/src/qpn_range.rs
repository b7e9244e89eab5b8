//! Parts of the QPN space, so that several NICs can share one address.

use roce_wire::Qpn;

/// One of [`QpnPart::COUNT`] equal parts of the QPN space. NICs behind one address, each in its own
/// process, have a part each: their QPNs never collide, and the first byte of a packet's
/// destination QPN identifies the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpnPart(u8);

impl QpnPart {
    /// The number of parts.
    pub const COUNT: u8 = 1 << (8 - Self::SHIFT);
    /// The number of a part is the first byte of a QPN, shifted to the right by this number of
    /// bits.
    pub const SHIFT: u32 = 1;
    /// Bits of a QPN below its part's number.
    const LOW_BITS: u32 = 16 + Self::SHIFT;

    /// The part that contains the QPNs of the management QPs.
    pub const FIRST: Self = Self(0);

    /// Part `number`, if there is one.
    pub fn new(number: u8) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The part that a QPN lies in.
    pub const fn of(qpn: Qpn) -> Self {
        Self((qpn.get() >> Self::LOW_BITS) as u8)
    }

    /// The part that a packet's destination QPN lies in. `transport` begins with the BTH. `None` if
    /// it ends before the destination QPN.
    pub fn of_packet(transport: &[u8]) -> Option<Self> {
        transport.get(5).map(|first| Self(first >> Self::SHIFT))
    }

    /// The QPN of this part whose lower bits are those of `bits`.
    pub(crate) fn pick(self, bits: u32) -> u32 {
        u32::from(self.0) << Self::LOW_BITS | bits & ((1 << Self::LOW_BITS) - 1)
    }

    /// The maximum number of QPs of a NIC that draws from one part. It leaves room for the three
    /// reserved QPNs, which are in two of the parts, and enough free QPNs that few draws are
    /// needed.
    pub const MAX_QPS: usize = (1 << Self::LOW_BITS) - 1024;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_cover_all_numbers() {
        for number in 0..QpnPart::COUNT {
            let part = QpnPart::new(number).expect("there are as many");
            for bits in [0, 1, 0x1_ffff, 0x00ff_ffff, u32::MAX, 0x1234_5678] {
                let qpn = Qpn::from_bits(part.pick(bits));
                assert_eq!(QpnPart::of(qpn), part, "{qpn}");
                let [_, high, middle, low] = qpn.get().to_be_bytes();
                let packet = [0, 0, 0, 0, 0, high, middle, low];
                assert_eq!(QpnPart::of_packet(&packet), Some(part), "{qpn}");
                assert_eq!(QpnPart::of_packet(&packet[..5]), None);
            }
        }
        assert_eq!(QpnPart::new(QpnPart::COUNT), None);
        let last = QpnPart::of(Qpn::MULTICAST).number();
        assert_eq!(last, QpnPart::COUNT - 1);
    }
}
