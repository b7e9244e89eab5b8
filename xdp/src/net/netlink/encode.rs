//! Requests to the kernel.

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

/// Requests the link.
pub(super) fn link(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let brief = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    message.attributes.push(brief);
    RouteNetlinkMessage::GetLink(message)
}

/// Requests the addresses of all interfaces, because older kernels can't list the addresses of one.
pub(super) fn addresses() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(AddressMessage::default())
}

/// Requests the route of a RoCE packet from a socket that is bound to the interface. The kernel
/// applies its rules on source, protocol and destination port.
pub(super) fn route(index: u32, PathKey { src, dst, .. }: PathKey) -> RouteNetlinkMessage {
    let bits = if dst.is_ipv6() { 128 } else { 32 };
    let mut message = RouteMessage::default();
    message.header.address_family = family(dst);
    message.header.destination_prefix_length = bits;
    message.header.source_prefix_length = bits;
    // With this flag, the answer contains the routing table that has the route. It contains none if
    // the kernel found no route and only assumes that the destination is on the link.
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

/// Reports that a neighbour is in use. The kernel resolves its address, or checks the known one, as
/// if it had sent a packet itself.
pub(super) fn neighbour_in_use(index: u32, address: IpAddr) -> RouteNetlinkMessage {
    let mut message = neighbour(index, address);
    message.header.flags = NeighbourFlags::Use;
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Requests the state of a neighbour.
pub(super) fn neighbour_state(index: u32, address: IpAddr) -> RouteNetlinkMessage {
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
