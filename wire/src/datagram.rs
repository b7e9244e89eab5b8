//! The headers of UD packets (DETH) and of XRC requests (XRCETH).

use crate::header::{be24, be32, fixed_header};
use crate::{Layer, QKey, Qpn};

/// The datagram extended transport header, of every UD packet (IBTA 1.7, 9.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deth {
    /// The Q_Key. The receiver drops the packet unless this is its QP's Q_Key.
    pub qkey: QKey,
    /// The sender's queue pair.
    pub src_qpn: Qpn,
}

// rule: 9.3.2-deth
fixed_header!(Deth, 8, Layer::Deth);

impl Deth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; Deth::LEN]) -> Deth {
        Deth {
            qkey: QKey(be32(b, 0)),
            src_qpn: Qpn::from_bits(be24(b, 5)),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; Deth::LEN] {
        let [k0, k1, k2, k3] = self.qkey.0.to_be_bytes();
        let [_, q0, q1, q2] = self.src_qpn.get().to_be_bytes();
        [k0, k1, k2, k3, 0, q0, q1, q2]
    }
}

impl Default for Deth {
    fn default() -> Deth {
        Deth {
            qkey: QKey(0),
            src_qpn: Qpn::QP0,
        }
    }
}

/// The XRC extended transport header, of every XRC request (IBTA 1.7, Annex A14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XrcEth {
    /// The shared receive queue that the request is for.
    pub srqn: Qpn,
}

// rule: A14-xrceth
fixed_header!(XrcEth, 4, Layer::XrcEth);

impl XrcEth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; XrcEth::LEN]) -> XrcEth {
        XrcEth {
            srqn: Qpn::from_bits(be24(b, 1)),
        }
    }

    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; XrcEth::LEN] {
        self.srqn.get().to_be_bytes()
    }
}

impl Default for XrcEth {
    fn default() -> XrcEth {
        XrcEth { srqn: Qpn::QP0 }
    }
}
