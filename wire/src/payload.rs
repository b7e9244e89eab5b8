//! Rules for the length of the payload.

use core::fmt;

/// The payload that an opcode allows, without padding (IBTA 1.7, 9.2 and 9.7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// No payload.
    None,
    /// Exactly the path MTU: first and middle packets.
    ExactlyMtu,
    /// At least one byte, at most the path MTU: last packets.
    OneToMtu,
    /// Up to the path MTU: only packets.
    UpToMtu,
    /// Exactly eight bytes: ATOMIC WRITE.
    Eight,
}

impl PayloadRule {
    /// Whether `len` bytes comply with the part of the rule that does not depend on the path MTU.
    /// For first and middle packets, that is any length but zero. The queue pair compares the
    /// length with the path MTU, because it must answer the peer if the length is wrong.
    #[inline]
    // rule: 9.2.1-payload-of-opcode
    pub const fn admits(self, len: usize) -> bool {
        let (shortest, longest) = self.bounds();
        shortest as usize <= len && len <= longest as usize
    }

    /// The shortest and the longest payload that [`PayloadRule::admits`] accepts. `u32::MAX` stands
    /// for no maximum: no packet is longer.
    pub(crate) const fn bounds(self) -> (u32, u32) {
        match self {
            PayloadRule::None => (0, 0),
            PayloadRule::ExactlyMtu | PayloadRule::OneToMtu => (1, u32::MAX),
            PayloadRule::UpToMtu => (0, u32::MAX),
            // rule: A19-atomic-write-payload
            PayloadRule::Eight => (8, 8),
        }
    }

    /// Whether `len` bytes are legal on a path with this MTU.
    #[inline]
    pub const fn admits_on(self, len: usize, mtu: crate::PathMtu) -> bool {
        match self {
            PayloadRule::None => len == 0,
            PayloadRule::ExactlyMtu => len == mtu.bytes(),
            PayloadRule::OneToMtu => len != 0 && len <= mtu.bytes(),
            PayloadRule::UpToMtu => len <= mtu.bytes(),
            PayloadRule::Eight => len == 8,
        }
    }
}

impl fmt::Display for PayloadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadRule::None => "none",
            PayloadRule::ExactlyMtu => "exactly the path MTU",
            PayloadRule::OneToMtu => "1 byte to the path MTU",
            PayloadRule::UpToMtu => "0 bytes to the path MTU",
            PayloadRule::Eight => "exactly 8 bytes",
        })
    }
}
