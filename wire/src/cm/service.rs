//! Service IDs, and the types of connections.

use core::fmt;

/// A service ID, which names the service that a request is for (IBTA 1.7, 12.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// The port spaces of rdma_cm, each of which is a range of service IDs. Those of TCP and UDP are
/// the service IDs of Annex A11 for these IP protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortSpace {
    /// Datagram services and multicast groups of IP over InfiniBand, `RDMA_PS_IPOIB`.
    Ipoib = 0x0002,
    /// Connected services, `RDMA_PS_TCP`.
    Tcp = 0x0106,
    /// Datagram services, `RDMA_PS_UDP`.
    Udp = 0x0111,
    /// Defined by the program, `RDMA_PS_IB`.
    Ib = 0x013f,
}

impl PortSpace {
    /// All port spaces.
    pub const ALL: [PortSpace; 4] = [
        PortSpace::Ipoib,
        PortSpace::Tcp,
        PortSpace::Udp,
        PortSpace::Ib,
    ];

    /// The number in `rdma_cma.h`. For TCP and UDP, its lower byte is the IP protocol number.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The space with this number.
    pub const fn from_code(code: u16) -> Option<PortSpace> {
        match code {
            0x0002 => Some(PortSpace::Ipoib),
            0x0106 => Some(PortSpace::Tcp),
            0x0111 => Some(PortSpace::Udp),
            0x013f => Some(PortSpace::Ib),
            _ => None,
        }
    }

    /// Whether services of this space are datagram services, which are looked up with SIDR_REQ
    /// instead of connected to with REQ. Services of [`PortSpace::Ib`] may be of either kind.
    pub const fn is_datagram(self) -> bool {
        matches!(self, PortSpace::Ipoib | PortSpace::Udp)
    }
}

impl ServiceId {
    /// The service ID of `port` in `space`: the space's [code](PortSpace::code) in bits 31 to 16,
    /// the port in bits 15 to 0. For TCP and UDP, this is the service ID of Annex A11:
    /// 0x0000_0000_01, the IP protocol number, the port.
    // rule: A11-service-id
    pub const fn ip(space: PortSpace, port: u16) -> ServiceId {
        ServiceId((space.code() as u64) << 16 | port as u64)
    }

    /// The port space and the port; `None` if the service ID is in no [`PortSpace`]. If it is in
    /// one, the private data of its requests begins with an [`IpService`](super::IpService).
    pub fn port(self) -> Option<(PortSpace, u16)> {
        let space = u16::try_from(self.0 >> 16).ok()?;
        Some((PortSpace::from_code(space)?, self.0 as u16))
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// The kind of connection that a REQ requests (IBTA 1.7, 12.6.5). Reliable datagrams, which no
/// device supports, are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection (Annex A14).
    Xrc,
}

impl ServiceType {
    /// Two bits of "transport service type", and three of "extended transport type".
    // rule: 12.6.5-transport
    pub(super) const fn bits(self) -> (u8, u8) {
        match self {
            ServiceType::Rc => (0, 0),
            ServiceType::Uc => (1, 0),
            ServiceType::Xrc => (3, 1),
        }
    }

    /// The inverse of [`ServiceType::bits`]. `extended` is ignored unless the service type refers
    /// to it.
    pub(super) const fn from_bits(service: u8, extended: u8) -> Option<ServiceType> {
        match (service, extended) {
            (0, _) => Some(ServiceType::Rc),
            (1, _) => Some(ServiceType::Uc),
            (3, 1) => Some(ServiceType::Xrc),
            _ => None,
        }
    }
}
