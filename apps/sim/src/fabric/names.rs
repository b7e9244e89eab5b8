//! Identifiers of the parts of a fabric, and the addresses of hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Identifies a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Identifies a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// Identifies a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub usize);

/// One direction of a cable: 2 n is from its first end, 2 n + 1 from its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EgressId(pub(super) usize);

impl EgressId {
    /// The other direction of the same cable.
    pub(super) fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// The node at an end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

impl From<HostId> for NodeId {
    fn from(id: HostId) -> Self {
        Self::Host(id)
    }
}

impl From<SwitchId> for NodeId {
    fn from(id: SwitchId) -> Self {
        Self::Switch(id)
    }
}

/// The IP header of packets, and how much of it the receiving port sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4 with a visible header, as with AF_XDP.
    V4,
    /// IPv4 through a socket, which hides part of the header.
    V4Hidden,
    /// IPv6.
    V6,
}

impl Ip {
    /// The index of the host that would have `address`: one less than the number in the address.
    /// The caller checks that there is such a host.
    pub(super) fn index(address: IpAddr) -> Option<usize> {
        let [high, low] = match address {
            IpAddr::V4(v4) => *v4.octets().last_chunk()?,
            IpAddr::V6(v6) => *v6.octets().last_chunk()?,
        };
        usize::from(u16::from_be_bytes([high, low])).checked_sub(1)
    }

    /// The address with number `n`. `HostId(i)` has number `i + 1`.
    pub fn address(self, n: usize) -> IpAddr {
        let [.., high, low] = n.to_be_bytes();
        match self {
            Self::V4 | Self::V4Hidden => Ipv4Addr::new(10, 0, high, low).into(),
            Self::V6 => {
                let last = u16::from_be_bytes([high, low]);
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into()
            }
        }
    }
}
