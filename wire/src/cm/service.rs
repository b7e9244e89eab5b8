//! What is asked for: services, and kinds of connections.

use core::fmt;

/// A service ID: whom a request is for (IBTA 1.7, 12.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// The spaces of ports that the IP service of Annex A11 has, by what rdma_cm calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortSpace {
    /// Multicast groups of IP over InfiniBand, `RDMA_PS_IPOIB`.
    Ipoib = 0x0002,
    /// Connections, `RDMA_PS_TCP`.
    Tcp = 0x0106,
    /// Datagrams, `RDMA_PS_UDP`.
    Udp = 0x0111,
    /// Whatever the program makes of it, `RDMA_PS_IB`.
    Ib = 0x013f,
}

impl PortSpace {
    /// All of them.
    pub const ALL: [PortSpace; 4] = [
        PortSpace::Ipoib,
        PortSpace::Tcp,
        PortSpace::Udp,
        PortSpace::Ib,
    ];

    /// The number in `rdma_cma.h`; its lower byte is that of the IP protocol.
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

    /// Whether services of this space are datagram services, which are looked up with
    /// SIDR_REQ, not connected to with REQ. Of [`PortSpace::Ib`] they may be both.
    pub const fn is_datagram(self) -> bool {
        matches!(self, PortSpace::Ipoib | PortSpace::Udp)
    }
}

impl ServiceId {
    /// The service ID of a port: 0x0000_0000_01, the IP protocol's number, the port
    /// (Annex A11).
    // rule: A11-service-id
    pub const fn ip(space: PortSpace, port: u16) -> ServiceId {
        ServiceId((space.code() as u64) << 16 | port as u64)
    }

    /// The space of ports and the port, if it is a service ID of Annex A11; the private
    /// data of its requests begins with an [`IpService`](super::IpService) then.
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

/// The kind of connection that a REQ is for (IBTA 1.7, 12.6.5). Reliable datagrams,
/// which no device has, are not among them.
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
    /// Two bits of "transport service type", three of "extended transport type".
    // rule: 12.6.5-transport
    pub(super) const fn bits(self) -> (u8, u8) {
        match self {
            ServiceType::Rc => (0, 0),
            ServiceType::Uc => (1, 0),
            ServiceType::Xrc => (3, 1),
        }
    }

    /// The way back. The extended type counts only if the other says so.
    pub(super) const fn from_bits(service: u8, extended: u8) -> Option<ServiceType> {
        match (service, extended) {
            (0, _) => Some(ServiceType::Rc),
            (1, _) => Some(ServiceType::Uc),
            (3, 1) => Some(ServiceType::Xrc),
            _ => None,
        }
    }
}
