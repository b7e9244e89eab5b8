//! The destinations of datagrams: address handles (IBTA 1.7, 10.2.2 and 11.2.2).

use crate::encapsulation::TxMeta;
use crate::memory::PdId;
use core::fmt;
use roce_wire::{QKey, Qpn};
use std::net::IpAddr;

/// A path to a port, or to a multicast group, along which QPs of one protection domain may send
/// datagrams. [`Nic::create_ah`](crate::Nic::create_ah) creates it. It is a plain value and need
/// not be destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressHandle {
    pub(crate) pd: PdId,
    path: TxMeta,
}

impl AddressHandle {
    pub(crate) fn new(pd: PdId, path: TxMeta) -> Result<Self, AddressError> {
        let TxMeta { src, dst, .. } = path;
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(AddressError::MixedFamilies { src, dst });
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

    /// The destination that consists of this path, the QP `qpn` at its end and that QP's Q_Key. For
    /// a multicast group, `qpn` is [`Qpn::MULTICAST`].
    // rule: 9.8.3-address-handle
    pub fn to(self, qpn: Qpn, qkey: QKey) -> Destination {
        Destination {
            ah: self,
            qpn,
            qkey,
        }
    }
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The path.
    pub ah: AddressHandle,
    /// The QP, or [`Qpn::MULTICAST`] for all QPs that are attached to the group.
    pub qpn: Qpn,
    /// The Q_Key that the QP must have. If its highest bit is set, the packet carries that of the
    /// sending QP instead (IBTA 1.7, 10.2.5).
    pub qkey: QKey,
}

/// Why an address handle was not created.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The protection domain is not one of this NIC.
    UnknownPd,
    /// One address is IPv4 and the other IPv6.
    MixedFamilies {
        /// The local address.
        src: IpAddr,
        /// The remote address.
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
            Self::MixedFamilies { src, dst } => write!(
                f,
                "an address handle from {src} to {dst}: choose the GID index of the peer's family"
            ),
            Self::Unspecified { dst } => write!(
                f,
                "an address handle to {dst}, which is the address of no port: give the peer's GID \
                 or a multicast group's"
            ),
        }
    }
}

impl fmt::Debug for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AddressError {}
