//! The two four-byte headers that a message's last packet may carry: immediate data (ImmDt), and
//! the key to invalidate (IETH).

use crate::Layer;
use crate::header::fixed_header;

/// Immediate data (IBTA 1.7, 9.3).
///
/// The value is that of the four bytes on the wire, read as a big-endian number. (Verbs pass the
/// four bytes on as they are, as a `__be32`.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImmDt(pub u32);

// rule: 9.3-immdt
fixed_header!(ImmDt, 4, Layer::ImmDt);

impl ImmDt {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; ImmDt::LEN]) -> ImmDt {
        ImmDt(u32::from_be_bytes(*b))
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; ImmDt::LEN] {
        self.0.to_be_bytes()
    }
}

/// The invalidate extended transport header: the remote key that the responder should invalidate
/// (IBTA 1.7, 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ieth(pub u32);

// rule: 9.3-ieth
fixed_header!(Ieth, 4, Layer::Ieth);

impl Ieth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; Ieth::LEN]) -> Ieth {
        Ieth(u32::from_be_bytes(*b))
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; Ieth::LEN] {
        self.0.to_be_bytes()
    }
}
