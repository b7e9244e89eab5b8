//! Parts of the space of QP numbers, so that several NICs can be behind one address.

use roce_wire::Qpn;

/// One of [`QpnPart::COUNT`] equal parts of the space of QP numbers. NICs behind one
/// address, each in a process of its own, have a part each: their QPs' numbers never
/// collide, and the first byte of a packet's destination QPN tells whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpnPart(u8);

impl QpnPart {
    /// How many parts there are.
    pub const COUNT: u8 = 1 << (8 - Self::SHIFT);
    /// The part's number is the first byte of a QPN, shifted to the right by so many bits.
    pub const SHIFT: u32 = 1;
    /// Bits of a QPN below its part's number.
    const LOW_BITS: u32 = 16 + Self::SHIFT;

    /// The part that has the numbers of the management QPs.
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

    /// The part of a packet, by its bytes from the BTH on; nothing if they end before its
    /// destination QPN.
    pub fn of_packet(transport: &[u8]) -> Option<Self> {
        transport.get(5).map(|first| Self(first >> Self::SHIFT))
    }

    /// The number of the part that `bits` choose.
    pub(crate) fn pick(self, bits: u32) -> u32 {
        u32::from(self.0) << Self::LOW_BITS | bits & ((1 << Self::LOW_BITS) - 1)
    }

    /// How many QPs a NIC can have whose numbers are of one part. The three numbers that no
    /// QP may have are in two of the parts, and draws must find a free one soon.
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
