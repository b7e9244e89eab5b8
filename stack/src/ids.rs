//! The IDs of a NIC's objects, which events, requests and errors carry.

use core::fmt;
use roce_wire::Qpn;

/// The ID of a CQ in [`Event`](crate::Event)s, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CqId(pub u64);

/// The number of an SRQ: 24 bits, as in the XRCETH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Srqn(pub(crate) u32);

impl Srqn {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The SRQ whose number is in the low 24 bits, as received from a peer.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 0xff_ffff)
    }

    /// The number in the form of the XRC header.
    pub(crate) const fn wire(self) -> Qpn {
        Qpn::from_bits(self.0)
    }
}

impl fmt::Display for Srqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl From<Qpn> for Srqn {
    /// The XRC header carries the number in the form of a QPN.
    fn from(number: Qpn) -> Self {
        Self(number.get())
    }
}

/// The ID of an XRC domain of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XrcdId(pub(crate) u32);

impl fmt::Display for XrcdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The QPN of a QP and its slot in the table. Once the QP is destroyed, the handle is stale: it
/// does not refer to another QP that uses the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    slot: u32,
    pub(crate) qpn: Qpn,
}

impl Handle {
    pub(crate) fn new(slot: u32, qpn: Qpn) -> Self {
        Self { slot, qpn }
    }

    /// The slot of the QP in the NIC's table.
    pub(crate) fn slot(self) -> u32 {
        self.slot
    }
}
