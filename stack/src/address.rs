//! Where datagrams go: address handles (IBTA 1.7, 10.2.2 and 11.2.2).

use crate::encapsulation::TxMeta;
use crate::memory::PdId;
use core::fmt;
use roce_wire::{QKey, Qpn};
use std::net::IpAddr;

/// A path to a port, or to a multicast group, that QPs of one protection domain may
/// send datagrams along; [`Nic::create_ah`](crate::Nic::create_ah) makes it. It is a
/// value: nothing has to be destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressHandle {
    pub(crate) pd: PdId,
    path: TxMeta,
}

impl AddressHandle {
    pub(crate) fn new(pd: PdId, path: TxMeta) -> Result<Self, AddressError> {
        let TxMeta { src, dst, .. } = path;
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(AddressError::TwoFamilies { src, dst });
        }
        if dst.is_unspecified() {
            return Err(AddressError::Unspecified { dst });
        }
        Ok(Self { pd, path })
    }

    /// The path: local and remote IP address, traffic class, hop limit.
    pub fn path(&self) -> &TxMeta {
        &self.path
    }

    /// The QP `qpn` at its end, whose Q_Key is `qkey`. A multicast group has the
    /// number [`Qpn::MULTICAST`].
    // rule: 9.8.3-address-handle
    pub fn to(self, qpn: Qpn, qkey: QKey) -> Destination {
        Destination {
            ah: self,
            qpn,
            qkey,
        }
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The path.
    pub ah: AddressHandle,
    /// The QP, or [`Qpn::MULTICAST`] for all that are attached to the group.
    pub qpn: Qpn,
    /// The key that the QP must have. With its highest bit set, that of the sending QP
    /// is sent instead (IBTA 1.7, 10.2.5).
    pub qkey: QKey,
}

/// Why an address handle was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The protection domain is not of this NIC.
    UnknownPd,
    /// One address is IPv4 and the other IPv6.
    TwoFamilies {
        /// The local one.
        src: IpAddr,
        /// The remote one.
        dst: IpAddr,
    },
    /// The remote address is 0.0.0.0 or ::.
    Unspecified {
        /// The remote address.
        dst: IpAddr,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPd => f.write_str("the protection domain does not belong to this device"),
            Self::TwoFamilies { src, dst } => write!(
                f,
                "an address handle from {src} to {dst}: choose the GID index of the peer's family"
            ),
            Self::Unspecified { dst } => write!(
                f,
                "an address handle to {dst}, which is nobody's address: give the peer's GID or a \
                 multicast group's"
            ),
        }
    }
}

impl std::error::Error for AddressError {}
