//! The ACK extended transport header.

use crate::header::{be24, fixed_header};
use crate::{Layer, Syndrome};

/// The ACK extended transport header, in acknowledgements and in first, last and
/// only RDMA READ responses (IBTA 1.7, 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// The kind of acknowledgement: ACK, RNR NAK, or NAK with its code.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits: the number of messages that the responder has completed.
    /// Higher bits are not sent.
    pub msn: u32,
}

// rule: 9.3.5-aeth
fixed_header!(Aeth, 4, Layer::Aeth);

impl Aeth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; Aeth::LEN]) -> Aeth {
        Aeth {
            syndrome: Syndrome::from_byte(b[0]),
            msn: be24(b, 1),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; Aeth::LEN] {
        let [_, m0, m1, m2] = self.msn.to_be_bytes();
        [self.syndrome.byte(), m0, m1, m2]
    }
}

impl Default for Aeth {
    /// A positive acknowledgement without credits, with MSN 0.
    fn default() -> Aeth {
        Aeth {
            syndrome: Syndrome::default(),
            msn: 0,
        }
    }
}
