//! Questions to the kernel.

use std::net::IpAddr;

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage};
use netlink_packet_route::{AddressFamily, IpProtocol, RouteNetlinkMessage};
use roce_wire::UDP_PORT;

use super::super::event::PathKey;

/// Asks for the link.
pub(super) fn link(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let brief = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    message.attributes.push(brief);
    RouteNetlinkMessage::GetLink(message)
}

/// Asks for the addresses of all interfaces: older kernels can't tell those of one.
pub(super) fn addresses() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(AddressMessage::default())
}

/// Asks where a RoCE packet of a socket that is bound to the interface would go. The
/// kernel does what its rules say of source, protocol and destination port.
pub(super) fn route(index: u32, PathKey { src, dst, .. }: PathKey) -> RouteNetlinkMessage {
    let bits = if dst.is_ipv6() { 128 } else { 32 };
    let mut message = RouteMessage::default();
    message.header.address_family = family(dst);
    message.header.destination_prefix_length = bits;
    message.header.source_prefix_length = bits;
    // The answer then names the table that the route was found in, and none if the
    // kernel found none and only supposes that the destination is on the link.
    message.header.flags = RouteFlags::LookupTable;
    message.attributes = vec![
        RouteAttribute::Destination(dst.into()),
        RouteAttribute::Source(src.into()),
        RouteAttribute::Oif(index),
        RouteAttribute::IpProto(i32::from(IpProtocol::Udp) as u8),
        RouteAttribute::Dport(UDP_PORT),
    ];
    RouteNetlinkMessage::GetRoute(message)
}

/// Says that a neighbour is in use: the kernel finds out its address, or whether the
/// one that it has is still right, just as if it had sent a packet itself.
pub(super) fn neighbour_in_use(index: u32, address: IpAddr) -> RouteNetlinkMessage {
    let mut message = neighbour(index, address);
    message.header.flags = NeighbourFlags::Use;
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Asks what is known of a neighbour.
pub(super) fn neighbour_known(index: u32, address: IpAddr) -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetNeighbour(neighbour(index, address))
}

fn neighbour(index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = index;
    let destination = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    message.attributes = vec![NeighbourAttribute::Destination(destination)];
    message
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
