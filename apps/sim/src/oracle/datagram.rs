//! The header in front of a received datagram.

use roce_stack::NetworkHeader;
use std::net::IpAddr;

/// The bytes in front of each received datagram.
pub const HEADER_BYTES: usize = 40;

/// The network layer of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The header of its packets.
    pub header: NetworkHeader,
    /// The address of the sender.
    pub from: IpAddr,
    /// The address that it was sent to.
    pub to: IpAddr,
}

/// The position of the next header in an IPv6 header or a GRH.
const NEXT_HEADER: usize = 6;

impl Network {
    /// Whether these bytes, the first of a receive, are the header of such a datagram.
    pub(super) fn has_header(&self, area: &[u8]) -> bool {
        match (self.header, self.from, self.to) {
            (NetworkHeader::Ipv4, IpAddr::V4(from), IpAddr::V4(to)) => {
                area.get(20) == Some(&0x45)
                    && area.get(32..36) == Some(&from.octets())
                    && area.get(36..40) == Some(&to.octets())
            }
            (NetworkHeader::Ipv4, ..) => false,
            (header, ..) => {
                let next = match header {
                    // IBTA 1.7, Annex A16: the BTH follows.
                    NetworkHeader::Grh => 0x1b,
                    _ => 17,
                };
                area.first().map(|byte| byte >> 4) == Some(6)
                    && area.get(NEXT_HEADER) == Some(&next)
                    && area.get(8..24) == Some(&gid(self.from))
                    && area.get(24..40) == Some(&gid(self.to))
            }
        }
    }
}

/// An address as a GID.
fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
